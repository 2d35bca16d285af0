"""The beginning and the end of a step, also of one that makes no update.

A step is one call of `apply` or `apply_gradients` of the outermost optimizer. An update may be
missing in it: a loss scale skips steps, and accumulated gradients are applied in some only. In a
TF1 graph each update is a step (`Wrapped._kungfu_update`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from kungfu_tf import context, errors, groups
from kungfu_tf.context import trained_variables
from kungfu_tf.context.meets import Meets
from kungfu_tf.replicas import local_variables
from kungfu_tf.upstream import generations


@contextlib.contextmanager
def of(optimizer: Any, variables: Iterable[Any]) -> Iterator[None]:
    """Within it `optimizer` takes a step, unless one around it does.

    Args:
        optimizer: A wrapped optimizer, or one around it.
        variables: What it trains.

    Raises:
        UnimplementedError: If there are several algorithms inside a loss scale that meet sometimes.
    """
    here = context.current()
    is_graph = not tf.compat.v1.executing_eagerly_outside_functions()
    if here.is_in_step or here.is_private or is_graph:
        yield
        return
    algorithms = generations.algorithms_of(optimizer)
    _check(algorithms)
    exchanged = exchanged_of(variables)
    for algorithm in algorithms:
        trained_variables.note(algorithm, exchanged)
        with groups.among(algorithm.group):
            algorithm.before_step(exchanged)
    with context.within(is_in_step=True):
        yield
    for algorithm in algorithms:
        with groups.among(algorithm.group):
            algorithm.after_step(exchanged)


def exchanged_of(variables: Iterable[Any]) -> list[Any]:
    """Those of the variables that peers exchange: no new values, and none that is local."""
    return local_variables.averaged(variables)


def _check(algorithms: list[Any]) -> None:
    if len(algorithms) > 1 and any(a.meets is Meets.SOMETIMES for a in algorithms):
        raise errors.UnimplementedError(
            f"{type(algorithms[0]).__name__}: a LossScaleOptimizer around several optimizers that "
            "accumulate gradients cannot be: it hides which of them trains which variables. Leave "
            "gradient_accumulation_steps away, or the loss scale"
        )
