"""What a Keras model needs to be before its first step: complete, equal, and with its own dice."""

from __future__ import annotations

import itertools
from typing import Any

import tensorflow as tf

from kungfu_tf import _keras, peer
from kungfu_tf.initializer.broadcast import broadcast_variables


def build(model: Any, iterator: Any) -> Any:
    """Creates all variables of the model and its optimizers, without training.

    Args:
        model: A compiled Keras model.
        iterator: Of the batches that it will be trained on.

    Returns:
        What to train on: `iterator`, as if nobody had looked into it.
    """
    if not all(layer.built for layer in model._flatten_layers()):
        if model.run_eagerly:
            unpack = _keras.package_of(model).module.utils.unpack_x_y_sample_weight
            batch = next(iterator)
            model(unpack(batch)[0], training=False)
            iterator = itertools.chain([batch], iterator)
        else:
            _trace_step(model, iterator.element_spec)
    for optimizer in _keras.optimizers_of(model):
        _keras.build(optimizer, model.trainable_variables)
    return iterator


def make_equal(model: Any) -> None:
    """Gives all peers rank 0's weights and optimizer state, and each its own random numbers."""
    optimizers = _keras.optimizers_of(model)
    states = [v for optimizer in optimizers for v in _keras.variables_of(optimizer)]
    broadcast_variables([*model.weights, *states])
    if _keras.package_of(model).generation == 3:
        _separate_seeds(model)


def _trace_step(model: Any, element_spec: Any) -> None:
    """Traces the train step and throws the trace away: it has created what it needs."""
    # Keras packs what a batch lacks into optionals and unpacks them to None.
    batch = tf.nest.map_structure(
        lambda spec: None if isinstance(spec, tf.OptionalSpec) else spec, element_spec
    )
    tf.function(model.train_step, autograph=False).get_concrete_function(batch)


def _separate_seeds(model: Any) -> None:
    """Makes each seed generator's state a function of what it was and of the rank; 0 keeps it.

    Done once for each generator, so that a second `fit` goes on with its numbers.
    """
    for generator in [g for layer in model._flatten_layers() for g in layer._seed_generators]:
        if hasattr(generator, "_kungfu_rank"):
            continue
        generator._kungfu_rank = peer.rank()
        # Multiples of an odd number near 2^32 / golden ratio: ranks lie far apart, and wrap.
        shift = tf.constant([peer.rank() * 0x9E3779B1 % (1 << 32), 0], dtype=tf.int64)
        state = _keras.native(generator.state)
        moved = tf.cast(state, tf.int64) + shift
        state.assign(tf.cast(moved % (1 << 32), state.dtype))
