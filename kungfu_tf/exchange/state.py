"""The state of a wrapper, beside that of the optimizer."""

from __future__ import annotations

import dataclasses
from typing import Any

from kungfu_tf.exchange.algorithm import Algorithm


@dataclasses.dataclass(eq=False)
class State:
    """The state of one wrapper.

    Attributes:
        algorithm: The algorithm around its updates; None before it is used.
        is_scaled: Whether the optimizer works inside a loss scale.
        takes_exchanged: Whether the gradients that it is given have been exchanged.
        takes_completed: Whether the gradients that it is given have zeros for those that only other
            peers have.
        local_variables: Those of its last update that are each peer's own.
        accumulated_variables: The variables whose gradients the steps of an update accumulate.
        computed: References of variables whose gradients `compute_gradients` has returned, and that
            were not applied yet.
        has_warned: Whether there was a warning that `fit` does not know this optimizer.
    """

    algorithm: Algorithm | None = None
    is_scaled: bool = False
    takes_exchanged: bool = False
    takes_completed: bool = False
    local_variables: list[Any] = dataclasses.field(default_factory=list)
    accumulated_variables: list[Any] = dataclasses.field(default_factory=list)
    computed: set[Any] = dataclasses.field(default_factory=set)
    has_warned: bool = False


def state_of(optimizer: Any) -> State:
    """The wrapper's state of `optimizer`, which is made at the first call and never saved.

    It goes past `setattr`, by which Keras and TensorFlow would track it and save it with the model.
    """
    state: State = vars(optimizer).setdefault("_kungfu_state", State())
    return state
