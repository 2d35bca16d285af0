"""What the optimizers have in common."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from kungfu.python._taking_in import come_in

from kungfu_tf import peer

__all__ = ["made", "without_number"]


class _Variables(list[Any]):
    """Variables that are asked for as `optimizer.variables`, and as `optimizer.variables()`."""

    def __call__(self) -> _Variables:
        return self


def made(optimizer: Any) -> Any:
    """An optimizer as KungFu's programs use it.

    Keras 3 has a property where there was a method, and programs broadcast its result. In eager
    code a newcomer comes in, as the optimizer's first step would not let it.
    """
    if tf.compat.v1.executing_eagerly_outside_functions():
        come_in()
    cls = type(optimizer)  # made for this optimizer
    theirs: Any = cls.variables
    if isinstance(theirs, property):
        cls.variables = property(lambda self: _Variables(theirs.__get__(self)))
    return optimizer


def without_number(optimizer: Any) -> Any:
    """An optimizer whose peers need not be at a step of the same number, in a job that may change.

    A newcomer of KungFu's programs trains a step before it learns how many there were.
    """
    if peer.launched() and peer.elastic():
        cls = type(optimizer)  # made for this optimizer
        theirs: Any = cls._kungfu_exchange
        cls._kungfu_exchange = lambda self, gradients, variables, step=None: theirs(
            self, gradients, variables
        )
    return optimizer
