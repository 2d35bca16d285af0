"""What programs do every day, and what they forget: it is right, or there is a warning."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings

import numpy as np
import tensorflow as tf
import training
from harness import Skip, each
from support import operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 2}]

tf.keras.backend.set_floatx("float64")
keras = tf.keras


def model_of(optimizer, loss="mse", seed=11, **options):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.layers.Input((training.FEATURES,)), keras.layers.Dense(1)])
    model.compile(optimizer, loss, **options)
    return model


def distributed(rate=0.1):
    return SynchronousSGDOptimizer(keras.optimizers.SGD(rate, momentum=0.9))


def mine(count=16):
    return [part[kf.rank() :: kf.size()] for part in training.samples(count)]


def rate_of(model):
    return float(np.asarray(generations.native(model.optimizer.learning_rate)))


def same_on_all(model) -> bool:
    return bool(kf.ops.consensus(training.digest(training.values_of(model.weights))))


def warned(function, *args, **options) -> list[str]:
    """The warnings of a call that point at its line here."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*args, verbose=0, **options)
    return [str(warning.message) for warning in found if warning.filename == __file__]


@each(layers=["built", "not built", "eager"])
def case_train_on_batch(layers):
    """All begin with rank 0's variables, and take the steps of one process."""
    eager = {"run_eagerly": True} if layers == "eager" else {}
    data = training.samples(16)
    single = model_of(keras.optimizers.SGD(0.1, momentum=0.9), seed=0)
    model = model_of(distributed(), seed=kf.rank(), **eager)
    if layers == "not built":
        keras.utils.set_random_seed(kf.rank())
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(distributed(), "mse")
    model.optimizer.learning_rate = 0.1 if kf.rank() == 0 else 0.5
    for _ in range(3):
        single.train_on_batch(*data)
        before = operations_done()
        model.train_on_batch(*mine())
    assert operations_done() == before + 1  # the later steps exchange nothing but gradients
    assert same_on_all(model)
    for value, expected in zip(model.get_weights(), single.get_weights(), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12)


@each(reduction=["sum", "sum_over_batch_size"])
def case_a_loss_that_is_a_sum(reduction):
    losses = {"a": keras.losses.MeanSquaredError(reduction=reduction), "b": "mse"}
    inputs = keras.layers.Input((training.FEATURES,))
    outputs = {name: keras.layers.Dense(1, name=name)(inputs) for name in losses}
    model = keras.Model(inputs, outputs)
    model.compile(distributed(0.01), losses)
    x, y = mine()
    found = warned(model.fit, x, {"a": y, "b": y})
    assert len(found) == (kf.rank() == 0 and reduction == "sum"), found
    assert all("MeanSquaredError" in text and "sum_over_batch_size" in text for text in found)


@each(masks=["no", "a layer", "weights", "the sum of weights"])
def case_a_loss_that_is_divided_by_what_its_mask_leaves(masks):
    if masks == "the sum of weights" and training.keras_version() < (3, 7):
        raise Skip("Keras before 3.7 has no reduction='mean_with_sample_weight'")
    by_sum = masks == "the sum of weights"
    reduction = {"reduction": "mean_with_sample_weight"} if by_sum else {}
    model = keras.Sequential(
        [
            keras.layers.Input((4, 3)),
            keras.layers.Masking() if masks == "a layer" else keras.layers.Identity(),
            keras.layers.Dense(1),
        ]
    )
    model.compile(distributed(0.01), keras.losses.MeanSquaredError(**reduction))
    x, y = np.full((8, 4, 3), 1.0 + kf.rank()), np.ones((8, 4, 1))
    weights = {"sample_weight": np.ones((8, 4))} if "weights" in masks else {}
    found = warned(model.fit, x, y, batch_size=4, epochs=2, **weights)
    assert len(found) == (kf.rank() == 0 and (masks == "a layer" or by_sum)), found
    assert all("mask" in text and "sample_weight" in text for text in found)


@each(wraps=["no", "yes", "callback", "own step"])
def case_an_optimizer_that_is_not_wrapped(wraps):
    """Whoever deals out data means to train together."""
    data = tf.data.Dataset.from_tensor_slices(training.samples(16))
    data = kf.data.shard(data).batch(4)
    model = model_of(distributed() if wraps == "yes" else "sgd")
    callbacks = []
    if wraps == "callback":
        callbacks = [kf.callbacks.MetricAverageCallback()]
    if wraps == "own step":
        plain = model.train_step
        model.train_step = lambda data: plain(data)
    found = warned(model.fit, data, callbacks=callbacks)
    assert len(found) == (kf.rank() == 0 and wraps == "no"), found
    assert all("is not distributed" in text for text in found)


def case_a_rate_that_rank_0_alone_has_restored():
    """Of a run that was interrupted after the rate had changed."""
    x, y = mine()

    class Fails(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 3:
                raise InterruptedError

    with tempfile.TemporaryDirectory() as folder:

        def fit(model, *more):
            callbacks = [
                keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=9),
                keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False),
            ]
            model.fit(x, y, 8, epochs=4, verbose=0, callbacks=[*callbacks, *more])

        raised_by(InterruptedError, lambda: fit(model_of(distributed()), Fails()))
        model = model_of(distributed())
        fit(model)
    assert rate_of(model) < 0.1
    assert same_on_all(model)
    assert kf.ops.consensus(np.float64(rate_of(model)))


def case_a_rate_that_one_peer_alone_changes():
    """The error names it, and says what to do."""
    plateau = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=9)
    callbacks = [plateau] if kf.rank() == 0 else []
    model = model_of(distributed())
    text = raised_by(
        kf.errors.DivergenceError,
        lambda: model.fit(*mine(), epochs=5, verbose=0, callbacks=callbacks),
    )
    assert "learning_rate" in text, text
    assert "callback" in text, text


@each(who=["root", "all"])
def case_what_callbacks_print(who):
    class Tells(keras.callbacks.LearningRateScheduler):
        """Of the program's own, from a class of Keras."""

    callbacks = [Tells(lambda epoch, rate: rate, verbose=1)]
    os.environ["KUNGFU_VERBOSE"] = who
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            model_of(distributed()).fit(*mine(), verbose=0, callbacks=callbacks)
    finally:
        del os.environ["KUNGFU_VERBOSE"]
    assert ("Epoch 1" in printed.getvalue()) == (kf.rank() == 0 or who == "all")
    assert callbacks[0].verbose == 1
