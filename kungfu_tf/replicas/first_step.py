"""Prepares a Keras model for its first step: complete, equal on all peers, with own randomness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kungfu_tf import context
from kungfu_tf.replicas import (
    first_batch,
    hidden_state,
    inference,
    local_variables,
    randomness,
)
from kungfu_tf.replicas.broadcast import broadcast_variables
from kungfu_tf.replicas.moving_statistics import begin_sums
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.plain_message import plain_message
from kungfu_tf.upstream.warn import warn


def around(model: Any, step: Callable[[Callable[[Any], Any], Any], Any]) -> None:
    """Replaces the next call of the model's train function by `step(train_function, iterator)`.

    Args:
        model: A Keras model whose train function is made.
        step: Calls the train function, and returns its logs.
    """
    train_function = model.train_function

    def first(iterator: Any) -> Any:
        model.train_function = train_function
        return step(train_function, iterator)

    first.kungfu_around = train_function  # type: ignore[attr-defined]
    model.train_function = first


def forget(model: Any) -> None:
    """Undoes `around` if no step was made."""
    while hasattr(getattr(model, "train_function", None), "kungfu_around"):
        model.train_function = model.train_function.kungfu_around


def begin(model: Any, iterator: Any, *, root: int = 0, compares: bool = True) -> Any:
    """Completes all peers' models, makes them equal, and checks that they compute the same.

    Args:
        model: A compiled Keras model, before the first call of its train function.
        iterator: The iterator of the batches that it will be trained on.
        root: The rank whose model all get.
        compares: Whether to check what the models compute. It is the same on all peers.

    Returns:
        An iterator of the same batches.

    Raises:
        tf.errors.InvalidArgumentError: On every peer, if a peer has another model.
        DivergenceError: On every peer, if a model computes something else.
    """
    batch, iterator = first_batch.look_at(iterator, generations.steps_per_execution(model))
    _build(model, batch, getattr(iterator, "element_spec", None))
    _make_equal(model, root)
    if compares and not any(map(local_variables.is_local, model.weights)):
        inference.check_same(model, batch)
    return iterator


def _build(model: Any, batch: Any, element_spec: Any) -> None:
    """Creates all variables of the model and its optimizers, without training.

    If steps run eagerly, the first one creates the variables of several optimizers itself.
    """
    is_built = all(layer.built for layer in model._flatten_layers())
    optimizers = generations.optimizers_of(model)
    has_one_optimizer = len(optimizers) == 1  # with several, only a step shows which trains what
    if not model.run_eagerly and element_spec is not None:
        if not is_built or not has_one_optimizer:
            trace(model.train_step, element_spec)
    elif not is_built and batch is not None:
        unpack = generations.package_of(model).module.utils.unpack_x_y_sample_weight
        model(unpack(batch)[0], training=False)
    if has_one_optimizer:
        generations.build(optimizers[0], model.trainable_variables)
        for algorithm in generations.algorithms_of(optimizers[0]):
            algorithm.build(local_variables.averaged(model.trainable_variables))


def _make_equal(model: Any, root: int) -> None:
    """Gives all peers the state of the root, and each its own random numbers.

    The state is that of the model, of its optimizers and of their algorithms.

    Raises:
        tf.errors.InvalidArgumentError: On every peer, if a peer has another model.
    """
    optimizers = generations.optimizers_of(model)
    states = [v for optimizer in optimizers for v in generations.variables_of(optimizer)]
    states += [v for a in generations.algorithms_of_model(model) for v in a.variables]
    try:
        with hidden_state.derived_anew(model):
            weights = [*model.weights, *states]
            broadcast_variables(local_variables.shared(weights, model.weights), root=root)
    except tf.errors.InvalidArgumentError as error:
        why = plain_message(error)
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "the peers' models are not the same, or their optimizers: of weights and optimizer "
            f"state all need as many, of the same shapes, in the same order: {why}",
        ) from None
    begin_sums(model)
    randomness.separate(model)


def equal_variables(model: Any) -> list[Any]:
    """The variables that are equal on all peers.

    They are those that a synchronous method keeps equal; of other methods what they remember.
    """
    algorithms = generations.algorithms_of_model(model)
    if algorithms and not any(algorithm.keeps_equal for algorithm in algorithms):
        return [v for algorithm in algorithms for v in algorithm.variables]
    trainable = [
        v for v in model.trainable_variables if not getattr(v, "overwrite_with_gradient", False)
    ]
    optimizers = generations.optimizers_of(model)
    states = [v for o in optimizers for v in generations.shared_variables_of(o)]
    return local_variables.shared([*trainable, *states], trainable)


def warn_not_distributed(model: Any) -> None:
    """Warns that each peer trains a model of its own."""
    warn(
        f"the model is compiled with an optimizer ({type(model.optimizer).__name__}) that is not "
        "distributed: every peer trains a model of its own and nothing will be averaged. Compile "
        "it with kungfu_tf.optimizers.SynchronousSGDOptimizer(optimizer), or wrap "
        "model.optimizer of a model that was loaded"
    )


def trace(step: Callable[[Any], Any], element_spec: Any) -> None:
    """Traces a step, so that it creates its variables, and drops the trace."""
    # Keras packs what a batch lacks into optionals and unpacks them to None.
    batch = tf.nest.map_structure(
        lambda spec: None if isinstance(spec, tf.OptionalSpec) else spec, element_spec
    )
    with context.within(is_rehearsal=True):
        tf.function(step, autograph=False).get_concrete_function(batch)
