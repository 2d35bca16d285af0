"""What the running code is part of: one immutable object in one context variable."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kungfu_tf.context.running_fit import ElasticRun, RunningFit


@dataclasses.dataclass(frozen=True, eq=False)
class Surroundings:
    """All of it. Outside of everything each field has its default.

    Attributes:
        fit: The innermost `fit` that runs. None outside, and in the program's own work within it.
        elastic_run: The training that the next `fit` is a part of, if peers may come and go.
        weight: How much this peer counts in the step, a float64 scalar (`sample_weights`); None:
            the step counts no samples, and peers count alike.
        scale: How many times as large as they should be the gradients are, a scalar.
        is_private: Whether this peer works by itself, as in an evaluation: no graph is trained by
            all peers.
        is_alone: Whether this peer does for a while what a process does that has no others: its
            operations return what they do there, and exchange nothing.
        counts_peers: Whether, where it is alone, rank and size are nevertheless those of the job.
        is_rehearsal: Whether a step is traced and thrown away: nothing of it will run.
        members: A number for what an update trains, which is the same on all peers; 0: no update.
        note_gradients: Is told the variables of each update, the gradients that the optimizer gets,
            and whether peers that do so stay equal. Returns the gradients to go on with. None:
            nobody asks.
        is_verified: Whether somebody else compares what is exchanged here (`verification`).
        restored: By name, the values that sessions start from in place of a checkpoint; None:
            sessions start as they do.
        estimator_run: The call of an Estimator's `train` in which data are made equally long.
    """

    fit: RunningFit | None = None
    elastic_run: ElasticRun | None = None
    weight: Any = None
    scale: Any = 1.0
    is_private: bool = False
    is_alone: bool = False
    counts_peers: bool = False
    is_rehearsal: bool = False
    members: int = 0
    note_gradients: Callable[[Sequence[Any], Sequence[Any], bool], Sequence[Any]] | None = None
    is_verified: bool = False
    restored: Mapping[str, Any] | None = None
    estimator_run: Any = None


_OUTSIDE = Surroundings()
_current: contextvars.ContextVar[Surroundings] = contextvars.ContextVar(
    "kungfu_tf", default=_OUTSIDE
)


def current() -> Surroundings:
    """What the code that asks is part of."""
    return _current.get()


@contextlib.contextmanager
def within(**changes: Any) -> Iterator[None]:
    """Within it these fields of `Surroundings` have other values, and all others those of before.

    Example:

    ```python
    with context.within(weight=None):
        assert context.current().weight is None
    ```
    """
    token = _current.set(dataclasses.replace(_current.get(), **changes))
    try:
        yield
    finally:
        _current.reset(token)
