"""Assignments to variables, in eager code, functions and TF1 graphs alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def assign(variables: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Assigns once all values are known: in a TF1 graph some may still read the variables."""
    with tf.control_dependencies(list(values)):
        return [v.assign(value) for v, value in zip(variables, values, strict=True)]


def assign_when(condition: Any, variables: Sequence[Any], make: Callable[[], Any]) -> list[Any]:
    """Assigns the values that `make` returns, if the condition holds.

    Args:
        condition: A bool scalar.
        variables: What to assign to.
        make: Returns a value for each variable. It is called in a branch.
    """
    if not all(hasattr(v, "handle") for v in variables):  # a branch cannot hold such a reference
        unchanged = lambda: [v.read_value() for v in variables]  # noqa: E731
        return assign(variables, tf.nest.flatten(tf.cond(condition, make, unchanged)))

    def change() -> Any:
        assigned = assign(variables, make())
        if tf.compat.v1.executing_eagerly_outside_functions():
            return tf.constant(True)
        with tf.control_dependencies([node.op for node in assigned]):
            return tf.constant(True)

    return [tf.cond(condition, change, lambda: tf.constant(False))]


def chosen_gradients(
    condition: Any,
    gradients: Sequence[Any],
    variables: Sequence[Any],
    then: Callable[[list[Any], list[Any]], Any],
    otherwise: Callable[[list[Any], list[Any]], Any],
) -> list[Any]:
    """The gradients as one of two functions returns them; None stays None.

    Args:
        condition: A bool scalar: whether it is the first function.
        gradients: Tensors, `tf.IndexedSlices` or None.
        variables: The variables that they belong to.
        then: Takes gradients, without None, and their variables.
        otherwise: The same.
    """
    given = [i for i, g in enumerate(gradients) if g is not None]
    results: list[Any] = list(gradients)
    if not given:  # TF1's `cond` must return something
        return results
    mine, theirs = [gradients[i] for i in given], [variables[i] for i in given]
    chosen = tf.cond(condition, lambda: then(mine, theirs), lambda: otherwise(mine, theirs))
    for i, gradient in zip(given, tf.nest.flatten(chosen), strict=True):
        results[i] = gradient
    return results
