"""`train_on_batch` with a wrapped optimizer: all peers begin with rank 0's variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kungfu_tf import groups, peer
from kungfu_tf.replicas import first_step
from kungfu_tf.replicas.equality import check_equal
from kungfu_tf.upstream import generations


def train_on_batch(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    """Keras' method. The first call makes the peers equal, and checks whether they stay so.

    The first call with these optimizers counts as the beginning of a training.
    """
    with groups.among(generations.group_of_model(model)):
        return _train_on_batch(original, model, *args, **kwargs)


def _train_on_batch(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    optimizers = generations.optimizers_of(model)
    begun = tuple(map(id, optimizers))
    algorithms = generations.algorithms_of_model(model)
    if not algorithms or peer.is_single_process() or vars(model).get("_kungfu_begun") == begun:
        return original(model, *args, **kwargs)

    def first(train_function: Any, iterator: Any) -> Any:
        iterator = first_step.begin(model, iterator)
        return train_function(iterator)

    for algorithm in algorithms:
        algorithm.before_training()
    model.make_train_function()
    first_step.around(model, first)
    try:
        result = original(model, *args, **kwargs)
    finally:
        first_step.forget(model)
    vars(model)["_kungfu_begun"] = begun
    if all(algorithm.keeps_equal for algorithm in algorithms):
        check_equal(first_step.equal_variables(model), "after the first train_on_batch")
    return result
