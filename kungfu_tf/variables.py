"""Training state that policies, hooks and programs share: variables with keys.

In a TF1 graph they belong to the graph, and are initialised, saved and restored with its other
global variables. In eager code they belong to the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kungfu_tf.context import graph_state
from kungfu_tf.upstream import generations

__all__ = [
    "GraphKeys",
    "combine",
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


class GraphKeys:
    """The keys of the variables that kungfu_tf knows."""

    BATCH_SIZE = "batch_size"
    LEARNING_RATE = "learning_rate"
    TRAINED_SAMPLES = "trained_samples"
    GRADIENT_NOISE_SCALE = graph_state.NOISE_SCALE


def combine(variable: Any, how: str) -> None:
    """Sets how `fit` combines the peers' values of a variable that a layer updates itself.

    `fit` gives all peers the combined value at the end of each epoch, and before a save. All peers
    begin with rank 0's value. By default the moving statistics of `BatchNormalization`, and
    variables with such names (`moving_mean`, `running_var`), are averaged, and others are not
    combined.

    ```
    "mean"    mean over peers of v
    "sum"     the last combined v + Σ over peers of what each has added since
    "root"    v of rank 0
    "own"     each peer keeps its own; rank 0's is saved
    ```

    Args:
        variable: A variable of a layer, not trainable: of Keras or a `tf.Variable`.
        how: One of the four.

    Raises:
        ValueError: If `how` is none of these, or "mean" for a variable that is not floating.

    Example:

    ```python
    def build(self, shape):
        self.counts = self.add_weight(shape=(10,), initializer="zeros", trainable=False)
        kf.variables.combine(self.counts, "sum")
    ```
    """
    if how not in _HOW:
        raise ValueError(f"variables.combine: 'mean', 'sum', 'root' or 'own', not {how!r}")
    native = generations.native(variable)
    if how == "mean" and not native.dtype.is_floating:
        raise ValueError(f"variables.combine: a mean of {native.dtype.name} would be rounded")
    native._kungfu_combine = how


_HOW = ("mean", "sum", "root", "own")


def create_global_variable(key: str, *, value: Any = 0, dtype: Any = tf.int64) -> Any:
    """Creates the variable of a key.

    Args:
        key: One of `GraphKeys`, or a name of your own.
        value: The initial value.
        dtype: The type of its elements.

    Returns:
        A variable that is not trained.

    Raises:
        ValueError: If there already is one.

    Example:

    ```python
    patience = kf.variables.create_global_variable("patience", value=3)
    ```
    """
    known = _known()
    if key in known:
        raise ValueError(f"there already is a global variable '{key}'")
    with tf.init_scope():
        known[key] = graph_state.variable(value, tf.as_dtype(dtype), key)
    return known[key]


def get_global_variable(key: str) -> Any:
    """Returns the variable of a key.

    Raises:
        KeyError: If there is none.

    Example:

    ```python
    samples = kf.variables.get_global_variable(kf.variables.GraphKeys.TRAINED_SAMPLES)
    ```
    """
    known = _known()
    if key not in known:
        raise KeyError(f"there is no global variable '{key}', only {sorted(known) or 'none'}")
    return known[key]


def get_or_create_global_variable(key: str, *, value: Any = 0, dtype: Any = tf.int64) -> Any:
    """Returns the variable of a key, and creates it if there is none.

    Args:
        key: As for `create_global_variable`.
        value: The initial value, if it is created.
        dtype: The type, if it is created.

    Example:

    ```python
    seen = kf.variables.get_or_create_global_variable("seen")
    ```
    """
    known = _known()
    return known[key] if key in known else create_global_variable(key, value=value, dtype=dtype)


def eval_global_variable(key: str, *, session: Any = None) -> Any:
    """Returns the current value of the variable of a key.

    Args:
        key: The key.
        session: In a TF1 graph, the session that has the value.

    Raises:
        KeyError: If there is no such variable.

    Example:

    ```python
    print(kf.variables.eval_global_variable("seen"))
    ```
    """
    variable = get_global_variable(key)
    return variable.numpy() if session is None else session.run(variable)


def get_or_create_batch_size(value: int) -> Any:
    """Returns the variable of the batch size of one peer, and creates it if there is none.

    Args:
        value: The initial value.

    Example:

    ```python
    size = kf.variables.get_or_create_batch_size(32)
    ```
    """
    return get_or_create_global_variable(GraphKeys.BATCH_SIZE, value=value)


def get_batch_size() -> Any:
    """Returns the variable of the batch size of one peer.

    Raises:
        KeyError: If there is none.

    Example:

    ```python
    rows = data[: kf.variables.get_batch_size()]
    ```
    """
    return get_global_variable(GraphKeys.BATCH_SIZE)


def eval_batch_size(*, session: Any = None) -> int:
    """Returns the batch size of one peer.

    Args:
        session: As for `eval_global_variable`.

    Raises:
        KeyError: If there is none.

    Example:

    ```python
    batch = rows[: kf.variables.eval_batch_size(session=session)]
    ```
    """
    return int(eval_global_variable(GraphKeys.BATCH_SIZE, session=session))


def eval_gradient_noise_scale(*, session: Any = None) -> float:
    """Returns the gradient noise scale, NaN until there is a value.

    Args:
        session: As for `eval_global_variable`.

    Raises:
        KeyError: If no optimizer measures it, or the training operation or train function has not
            been made yet.

    Example:

    ```python
    print(kf.variables.eval_gradient_noise_scale(session=session))
    ```
    """
    return float(eval_global_variable(GraphKeys.GRADIENT_NOISE_SCALE, session=session))


def create_setter(variable: Any) -> Callable[..., None]:
    """Makes a function that sets a variable, even if its TF1 graph is finalized.

    Args:
        variable: Any variable.

    Returns:
        A function of the value, and in a TF1 graph also of `session=`.

    Example:

    ```python
    set_batch_size = kf.variables.create_setter(kf.variables.get_batch_size())
    set_batch_size(64)
    ```
    """
    if tf.compat.v1.executing_eagerly_outside_functions():
        return lambda value, session=None: variable.assign(value)
    given = tf.compat.v1.placeholder(variable.dtype, variable.shape)
    assigned = variable.assign(given, read_value=False)

    def set_value(value: Any, session: Any) -> None:
        session.run(assigned, {given: value})

    return set_value


def _known() -> dict[str, Any]:
    return graph_state.shared_by_key()
