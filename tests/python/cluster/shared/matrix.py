"""Trains a model twice in float64, by one process and by all peers, and compares the weights."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf
import training
from harness import Skip

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

FEATURES = 3
BATCH = 4  # of one peer
STEPS = 6
TOLERANCE = 1e-12

keras = tf.keras
layers = keras.layers
keras.backend.set_floatx("float64")
IS_KERAS_3 = training.is_keras_3()
FAMILIES = [keras.optimizers] if IS_KERAS_3 else [keras.optimizers, keras.optimizers.legacy]
RATES = {"Adadelta": 20.0, "SGD": 0.1}  # so large that every weight moves


def samples():
    random = np.random.default_rng(seed=7)
    x = random.normal(size=(STEPS * BATCH * kf.size(), FEATURES))
    return x, np.sin(x.sum(axis=1, keepdims=True))


def batches(data, is_whole, is_fixed=True):
    """Those of one process, or this peer's part of each; whose size the program knows, or not."""
    dataset = tf.data.Dataset.from_tensor_slices(data)
    if is_whole:
        return dataset.batch(BATCH * kf.size(), drop_remainder=is_fixed)
    return kf.data.shard(dataset).batch(BATCH, drop_remainder=is_fixed)


def dense_model():
    return keras.Sequential(
        [
            layers.Input((FEATURES,)),
            layers.Dense(4, "tanh", bias_initializer="ones"),
            layers.Dense(1, bias_initializer="ones"),
        ]
    )


def fitted(make_model, optimizer, data, is_whole, seed=11, callbacks=(), is_fixed=True, **options):
    """A model that was trained, and the weights it had before if it had any."""
    keras.utils.set_random_seed(seed)
    model = make_model()
    before = training.values_of(model.trainable_variables) if model.built else []
    if model.built and is_whole:
        # As all optimizers of several peers are, before the first step. Keras 3.15 lets some
        # (ScheduleFreeAdamW) begin elsewhere if they are built while the step is traced.
        generations.build(optimizer, model.trainable_variables)
    model.compile(optimizer, "mse", **options)
    dataset = batches(data, is_whole, is_fixed)
    train = functools.partial(model.fit, dataset, verbose=0, callbacks=[c() for c in callbacks])
    if is_whole:
        training.on_one_peer(model, train)
    else:
        train()
    return model, before


def assert_equal(model, single, tolerance=TOLERANCE):
    """The weights are those of the single process, and the same on all peers."""
    weights = training.values_of(model.trainable_variables)
    assert kf.ops.consensus(np.int64(training.digest(weights)))
    for i, (found, expected) in enumerate(
        zip(weights, training.values_of(single.trainable_variables), strict=True)
    ):
        off = np.linalg.norm(found - expected) / np.linalg.norm(expected)
        assert off <= tolerance, f"variable {i} is off by {off:.2g}"


def check(make_optimizer, make_model=dense_model, *, updates=STEPS, tolerance=TOLERANCE, **options):
    """Trains both. The peers begin with different weights; those of rank 0 are the single's."""
    data = samples()
    single, before = fitted(make_model, make_optimizer(), data, True, **options)
    optimizer = SynchronousSGDOptimizer(make_optimizer())
    model, _ = fitted(make_model, optimizer, data, False, seed=11 + kf.rank(), **options)
    assert_equal(model, single, tolerance)
    assert set(training.completed(optimizer)) == {updates}, training.completed(optimizer)
    for i, (first, last) in enumerate(
        zip(before, training.values_of(single.trainable_variables), strict=bool(before))
    ):
        assert np.linalg.norm(last - first) >= 1e-3 * np.linalg.norm(last), f"{i} did not move"


def makers(name):
    """What makes the optimizer, in each family that has it."""
    found = [getattr(family, name) for family in FAMILIES if hasattr(family, name)]
    if not found:
        raise Skip(f"this Keras has no {name}")
    if name == "Muon" and training.keras_version() < (3, 13):
        raise Skip("Muon of this Keras fails in any fit of TensorFlow's")
    return [lambda cls=cls, **options: cls(RATES.get(name, 0.05), **options) for cls in found]


OPTIONS = {
    "clipnorm": {"clipnorm": 0.1},
    "clipvalue": {"clipvalue": 0.05},
    "global_clipnorm": {"global_clipnorm": 0.1},
    "weight_decay": {"weight_decay": 0.1},
    "ema": {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    "ema at the end": {"use_ema": True, "ema_momentum": 0.5},
    "loss_scale_factor": {"loss_scale_factor": 8.0},
    "accumulation": {"gradient_accumulation_steps": 3},
    "accumulation, clipnorm": {"gradient_accumulation_steps": 3, "clipnorm": 0.1},
    "accumulation, ema": {"gradient_accumulation_steps": 2, "use_ema": True, "ema_momentum": 0.5},
}


def updates_with(options):
    """How often gradients are exchanged in STEPS steps."""
    if training.clips_each_gradient():
        return STEPS
    return STEPS // options.get("gradient_accumulation_steps", 1)


def makers_with(name, options):
    """Those of the families that know the options."""
    found = []
    for make in makers(name):
        try:
            make(**options)
        except (TypeError, ValueError) as error:
            assert any(name in str(error) for name in options), error
            continue
        found.append(lambda make=make: make(**options))
    if not found:
        raise Skip(f"this Keras' {name} has no {', '.join(options)}")
    return found
