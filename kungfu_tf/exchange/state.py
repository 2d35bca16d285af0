"""What a wrapper keeps beside the optimizer's own state."""

from __future__ import annotations

import dataclasses
from typing import Any

from kungfu_tf.exchange.algorithm import Algorithm


@dataclasses.dataclass(eq=False)
class State:
    """Of one wrapped optimizer.

    Attributes:
        algorithm: What is done around the update; None: it was not asked for.
        is_scaled: Whether the optimizer works inside a loss scale.
        is_given_means: Whether `apply` is given gradients that have been exchanged.
        is_given_all: Whether gradients that only other peers have are among those that it is given.
        gathered: The variables whose gradients the micro steps of an update gather.
        computed: References of variables whose gradients `compute_gradients` has returned and
            nobody has applied.
        has_warned: Whether there was a warning that `fit` does not know this optimizer.
    """

    algorithm: Algorithm | None = None
    is_scaled: bool = False
    is_given_means: bool = False
    is_given_all: bool = False
    gathered: list[Any] = dataclasses.field(default_factory=list)
    computed: set[Any] = dataclasses.field(default_factory=set)
    has_warned: bool = False


def state_of(optimizer: Any) -> State:
    """The state of `optimizer`: made at the first call, and not saved.

    It is one entry of the instance's `__dict__`: an attribute that is set would be tracked, by
    TensorFlow and Keras, and saved with the model.
    """
    state: State = vars(optimizer).setdefault("_kungfu_state", State())
    return state
