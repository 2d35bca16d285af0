"""A call of `fit` as lower rooms see it: they read it, and change nothing.

`keras/fit/call.py` makes it from a model and its arguments.
"""

from __future__ import annotations

from typing import Any, Protocol


class ElasticRun(Protocol):
    """A training that goes through several calls of `fit`, one after each change of the peers."""

    @property
    def step(self) -> int:
        """How many steps have been made."""

    @property
    def all_steps(self) -> int:
        """The same, with those of earlier runs that it continues."""

    @property
    def has_begun(self) -> bool:
        """Whether the epoch that `fit` begins with has begun already."""


class TrainedData(Protocol):
    """The data that `fit` trains on."""

    @property
    def sizes(self) -> Any:
        """The sizes of batches, if these may change; else None."""

    @property
    def samples(self) -> Any:
        """How many samples all peers have trained on, an int64 variable; None: nobody counts."""

    @property
    def steps(self) -> Any:
        """How many steps were made, an int64 variable; None: nobody counts."""


class RunningFit(Protocol):
    """A call of `fit`."""

    @property
    def model(self) -> Any:
        """The model that is trained."""

    @property
    def is_shared(self) -> bool:
        """Whether all peers train it."""

    @property
    def is_synchronous(self) -> bool:
        """Whether the peers meet in every step."""

    @property
    def elastic_run(self) -> ElasticRun | None:
        """The training that this call is a part of, if peers may come and go."""

    @property
    def data(self) -> TrainedData | None:
        """The data of the training; None until Keras has looked at them."""
