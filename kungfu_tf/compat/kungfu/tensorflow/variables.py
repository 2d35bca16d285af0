"""Training state that policies, hooks and programs share.

A variable belongs to a graph, and is found there by its name. In eager code, where KungFu has none,
they belong to the process, and the session may be left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import variables

__all__ = [
    "GraphKeys",
    "create_assign_op_for",
    "create_global_variable",
    "create_placeholder_for",
    "create_setter",
    "eval_batch_size",
    "eval_global_variable",
    "eval_gradient_noise_scale",
    "get_batch_size",
    "get_global_variable",
    "get_or_create_batch_size",
    "get_or_create_global_variable",
]


class GraphKeys(variables.GraphKeys):
    """The names by which the variables are found."""

    TOTAL_SAMPLES = "total_samples"


def create_global_variable(
    name: str, shape: Any, dtype: Any, graph: Any = None, init: Any = None
) -> Any:
    """Creates a variable that is not trained, and is found by its name.

    Args:
        name: Its name.
        shape: Of the value, where `init` is none.
        dtype: Of its elements.
        graph: Which one it belongs to; the default graph.
        init: The initial value; None: zeros.

    Raises:
        ValueError: If there is one already.
    """
    with _within(graph):
        zeros = np.zeros(shape, tf.as_dtype(dtype).as_numpy_dtype)
        value = zeros if init is None else init
        return variables.create_global_variable(name, value=value, dtype=dtype)


def get_or_create_global_variable(
    name: str, shape: Any, dtype: Any, graph: Any = None, init: Any = None
) -> Any:
    """Returns the variable of a name, and creates it if there is none: `create_global_variable`."""
    known = get_global_variable(name, graph)
    return create_global_variable(name, shape, dtype, graph, init) if known is None else known


def get_global_variable(name: str, graph: Any = None) -> Any:
    """Returns the variable of a name, or None."""
    with _within(graph), contextlib.suppress(KeyError):
        return variables.get_global_variable(name)
    return None


def eval_global_variable(name: str, sess: Any = None, graph: Any = None) -> Any:
    """Returns the value that a variable has in a session.

    Raises:
        RuntimeError: If there is none of this name.
    """
    variable = get_global_variable(name, graph)
    if variable is None:
        raise RuntimeError(f"there is no global variable '{name}'")
    return variable.numpy() if sess is None else sess.run(variable)


def get_or_create_batch_size(init: Any = None) -> Any:
    """Returns the variable of the batch size of one peer, and creates it if there is none."""
    return get_or_create_global_variable(GraphKeys.BATCH_SIZE, [], tf.int32, init=init)


def get_batch_size() -> Any:
    """Returns the variable of the batch size of one peer, or None."""
    return get_global_variable(GraphKeys.BATCH_SIZE)


def eval_batch_size(sess: Any = None) -> Any:
    """Returns the batch size of one peer."""
    return eval_global_variable(GraphKeys.BATCH_SIZE, sess)


def eval_gradient_noise_scale(sess: Any = None) -> Any:
    """Returns the gradient noise scale, NaN until there is a value."""
    return eval_global_variable(GraphKeys.GRADIENT_NOISE_SCALE, sess)


def create_placeholder_for(t: Any) -> Any:
    """Makes a placeholder like a tensor or variable."""
    return tf.compat.v1.placeholder(t.dtype.base_dtype, t.shape)


def create_assign_op_for(t: Any) -> tuple[Any, Any]:
    """Makes the operation that gives a variable the value of a placeholder, and that one."""
    given = create_placeholder_for(t)
    return t.assign(given), given


def create_setter(v: Any) -> Callable[[Any, Any], None]:
    """Makes a function of a session and a value, which gives it to a variable."""
    set_value = variables.create_setter(v)
    return lambda sess, value: set_value(value, session=sess)


def _within(graph: Any) -> Any:
    return contextlib.nullcontext() if graph is None else graph.as_default()
