"""Training state that policies, hooks and programs share.

If KungFu's functions take a session, it may come before or after the other argument; in eager code
there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kungfu_tf import variables
from kungfu_tf.variables import GraphKeys, get_batch_size, get_global_variable

__all__ = [
    "GraphKeys",
    "create_global_variable",
    "create_setter",
    "eval_batch_size",
    "eval_global_variable",
    "eval_gradient_noise_scale",
    "get_batch_size",
    "get_global_variable",
    "get_or_create_batch_size",
    "get_or_create_global_variable",
]


def create_global_variable(name: str, value: Any = 0, dtype: Any = tf.int64) -> Any:
    """Creates the variable that is found by a name."""
    return variables.create_global_variable(name, value=value, dtype=dtype)


def get_or_create_global_variable(name: str, value: Any = 0, dtype: Any = tf.int64) -> Any:
    """Returns the variable that is found by a name, and creates it if there is none."""
    return variables.get_or_create_global_variable(name, value=value, dtype=dtype)


def get_or_create_batch_size(init_batch_size: int) -> Any:
    """Returns the variable of the batch size of one peer, and creates it if there is none."""
    return variables.get_or_create_batch_size(init_batch_size)


def eval_global_variable(session: Any, name: Any = None) -> Any:
    """Returns the value that a variable has now."""
    session, name = _in_order(session, name)
    return variables.eval_global_variable(name, session=session)


def eval_batch_size(session: Any = None) -> int:
    """Returns the batch size of one peer."""
    return variables.eval_batch_size(session=session)


def eval_gradient_noise_scale(session: Any = None) -> float:
    """Returns the gradient noise scale, NaN until there is a value."""
    return variables.eval_gradient_noise_scale(session=session)


def create_setter(variable: Any) -> Callable[..., None]:
    """Makes a function of a session and a value, which gives it to a variable."""
    set_value = variables.create_setter(variable)

    def set_in(session: Any, value: Any = None) -> None:
        session, value = _in_order(session, value)
        set_value(value, session=session)

    return set_in


def _in_order(first: Any, second: Any) -> tuple[Any, Any]:
    """The session, or None, and the other one."""
    if second is not None and not hasattr(second, "run"):
        return first, second
    return second, first
