"""How far an elastic training is, as rank 0 tells the other peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """What a peer must know to continue a training where rank 0 is.

    Attributes:
        training: Which elastic training of the program this is, from 0.
        epoch: The current epoch, from 0.
        sample: How many samples of the epoch are done.
        step: How many steps this training has made.
        earlier_steps: How many steps it had made before it was restored from a backup.
        trained_samples: How many samples all peers have trained on, including those before the
            backup.
        batch_size: The batch size of a peer, if policies change it; 0: the size that the data have.
        gaps: Samples before `sample` that are not done yet (`Position.gaps`).
    """

    training: int
    epoch: int
    sample: int
    step: int
    earlier_steps: int
    trained_samples: int
    batch_size: int | None
    gaps: tuple[int, ...] = ()

    def to_integers(self) -> list[int]:
        """The form in which a place travels: `gaps` comes last, and -1 is no batch size."""
        *numbers, batch_size, gaps = self
        return [*numbers, -1 if batch_size is None else batch_size, *gaps]

    @classmethod
    def from_integers(cls, integers: Sequence[int]) -> Place:
        """The inverse of `to_integers`."""
        training, epoch, sample, step, earlier_steps, trained_samples, batch_size, *gaps = integers
        return cls(
            *(training, epoch, sample, step, earlier_steps, trained_samples),
            batch_size=None if batch_size < 0 else batch_size,
            gaps=tuple(gaps),
        )
