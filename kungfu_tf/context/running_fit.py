"""A call of `fit` as lower rooms see it, who only read it. `keras/fit/call.py` has all of it."""

from __future__ import annotations

from typing import Any, Protocol

from kungfu_tf.context.meets import Meets


class ElasticRun(Protocol):
    """An elastic training, which calls `fit` again after each change of the peers."""

    @property
    def step(self) -> int:
        """How many steps this training has made."""

    @property
    def all_steps(self) -> int:
        """How many steps were made, including those of the run that this training continues."""

    @property
    def has_begun(self) -> bool:
        """Whether this call of `fit` begins in the middle of an epoch."""

    @property
    def done_before(self) -> float:
        """Which part of the epoch was done before this call of `fit`, from 0 to 1."""


class TrainedData(Protocol):
    """The data that `fit` trains on."""

    @property
    def sizes(self) -> Any:
        """The sizes of batches (`data.rebatch.Sizes`), if policies may change them; else None."""

    @property
    def samples(self) -> Any:
        """The samples that all peers have trained on, an int64 variable; None: not counted."""

    @property
    def steps(self) -> Any:
        """The steps that were made, an int64 variable; None: not counted."""


class RunningFit(Protocol):
    """A call of `fit`."""

    @property
    def model(self) -> Any:
        """The model that is trained."""

    @property
    def is_shared(self) -> bool:
        """Whether all peers train it."""

    @property
    def meets(self) -> Meets:
        """How often the peers meet."""

    @property
    def elastic_run(self) -> ElasticRun | None:
        """The elastic training that this call is a part of; None if there is none."""

    @property
    def data(self) -> TrainedData | None:
        """The data; None until Keras has made an iterator of them."""
