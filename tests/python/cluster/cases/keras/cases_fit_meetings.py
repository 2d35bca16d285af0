"""`fit` with peers that meet after some steps: what it exchanges, and what it leaves."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile

import numpy as np
import tensorflow as tf
import training
from fits import Seen, keras, mine, model_of, same_on_all, samples
from harness import Skip, each, exhaustive
from support import operations_done, raised_by

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.keras.saving import algorithm_state
from kungfu_tf.optimizers import DecentralizedSGDOptimizer, DiLoCoOptimizer, LocalSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [
    {"np": 3},
    {"np": 2, "cases": ["nothing_is_said_between_meetings"]},
    {"np": 1, "cases": ["fit_validates_saves_and_leaves_one_model"]},
]
TIMEOUT = 200

BATCH = 4
METHODS = {
    "local": LocalSGDOptimizer,
    "diloco": DiLoCoOptimizer,
    "gossip": functools.partial(DiLoCoOptimizer, gossip=kf.topology.random_matching(seed=3)),
    "mixed": DecentralizedSGDOptimizer,
}
BOTH = ["local", "diloco"]


def wrapped(method, every, rate=0.1, **options):
    return METHODS[method](keras.optimizers.SGD(rate), every=every, **options)


def algorithm_of(model):
    [algorithm] = generations.algorithms_of_model(model)
    return algorithm


def weights_of_all(model):
    return kf.ops.all_gather(training.flat_weights(model)).numpy()


def generator(batches, seed=0):
    """Of endless batches, if `batches` is None."""
    random = np.random.default_rng(seed)
    number = 0
    while batches is None or number < batches:
        x = random.normal(size=(BATCH, training.FEATURES))
        yield x, (x.sum(axis=1, keepdims=True) > 0).astype("float64")
        number += 1


DATA = [
    "arrays", "uneven arrays", "dealt", "generator", "endless generator", "generator dataset",
]  # fmt: skip


def fit(model, steps, data, **options):
    """Calls `fit` for so many steps, with data whose number is known in one way or another."""
    options = {"verbose": 0, **options}
    if data == "arrays":
        return model.fit(*mine(samples(steps * BATCH * kf.size())), batch_size=BATCH, **options)
    if data == "uneven arrays":  # the last peer has one batch less, which is not whole
        x, y = mine(samples(steps * BATCH * kf.size()))
        less = (BATCH + 1) * (kf.rank() == kf.size() - 1)
        return model.fit(x[less:], y[less:], batch_size=BATCH, **options)
    if data == "dealt":
        whole = tf.data.Dataset.from_tensor_slices(samples(steps * BATCH * kf.size()))
        return model.fit(kf.data.shard(whole).batch(BATCH), **options)
    if data == "generator dataset":
        like = tuple(tf.TensorSpec([None, n], tf.float64) for n in (training.FEATURES, 1))
        dataset = tf.data.Dataset.from_generator(
            lambda: generator(steps, kf.rank()), output_signature=like
        )
        return model.fit(dataset, **options)
    endless = data.startswith("endless")
    batches = generator(None if endless else steps, kf.rank())
    return model.fit(batches, steps_per_epoch=steps if endless else None, **options)


def exchanged(model, steps, data, **options):
    before = operations_done()
    fit(model, steps, data, **options)
    return operations_done() - before


@each(method=BOTH, data=DATA, beside=["", "hook", "loss scale"])
@exhaustive(method=["local"], beside=["hook"])
def case_nothing_is_said_between_meetings(method, data, beside):
    """As the difference of two calls: what is agreed once in a call counts in both."""
    if not training.is_keras_3() and data in ("generator", "generator dataset"):
        raise Skip("Keras 2 asks for more batches in each step, unless it is given steps_per_epoch")
    optimizer = wrapped(method, 1000)
    if beside == "loss scale":
        package = keras.optimizers if training.is_keras_3() else keras.mixed_precision
        optimizer = package.LossScaleOptimizer(optimizer)
    looks = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)
    callbacks = [looks] if beside == "hook" else []
    model = model_of(optimizer, metrics=["accuracy"])
    exchanged(model, 8, data, callbacks=callbacks)  # builds and traces
    short, long = (exchanged(model, n, data, callbacks=callbacks) for n in (8, 24))
    assert long == short, (short, long)
    schedule = algorithm_of(model).schedule
    assert int(schedule.steps) == int(schedule.steps_at_meeting) == 8 + 8 + 24


@each(method=BOTH)
def case_uneven_batches_count_by_their_samples(method):
    """Peers with batches of different sizes: one has more samples between two meetings."""
    steps, every, rate, size = 6, 2, 0.1, 2 + 3 * kf.rank()
    x, y = training.samples(steps * 16 * kf.size())
    x, y = (part.reshape(kf.size(), -1, part.shape[-1]) for part in (x, y))
    inner = keras.optimizers.SGD(rate)
    if method == "local":
        optimizer = LocalSGDOptimizer(inner, every=every)
    else:
        optimizer = DiLoCoOptimizer(inner, outer=keras.optimizers.SGD(1.0), every=every)
    model = keras.Sequential(
        [keras.layers.Input((training.FEATURES,)), keras.layers.Dense(1, kernel_initializer="ones")]
    )
    model.compile(optimizer, "mse")
    own = [part[kf.rank(), : steps * size] for part in (x, y)]
    model.fit(*own, batch_size=size, shuffle=False, verbose=0)
    weights = np.zeros([kf.size(), training.FEATURES + 1])
    weights[:, :-1] = 1
    counts = np.array([2 + 3 * rank for rank in range(kf.size())])
    for step in range(steps):
        for rank, n in enumerate(counts):
            mine_x, mine_y = (part[rank, step * n : (step + 1) * n] for part in (x, y))
            error = mine_x @ weights[rank, :-1, None] + weights[rank, -1] - mine_y
            weights[rank, :-1] -= rate * 2 * np.mean(error * mine_x, axis=0)
            weights[rank, -1] -= rate * 2 * np.mean(error)
        if step % every == every - 1:
            weights[:] = np.average(weights, axis=0, weights=counts)
    np.testing.assert_allclose(training.flat_weights(model), weights[0], rtol=1e-12, atol=1e-12)


@each(method=BOTH)
def case_fit_validates_saves_and_leaves_one_model(method):
    """The last meeting comes at the end, before its time. A single process has an anchor, too."""
    if method == "local" and kf.size() == 1:
        raise Skip("the plain optimizer")
    folder = os.path.join(tempfile.gettempdir(), f"{os.environ['KUNGFU_JOB_ID']}-{method}")
    path = f"{folder}.weights.h5"
    own, seen = [], []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: own.append(training.flat_weights(model)),
        on_epoch_end=lambda epoch, logs: seen.append(training.flat_weights(model)),
    )
    model = model_of(wrapped(method, 4))
    saver = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
    fit(model, 6, "arrays", callbacks=[watch, saver])
    assert same_on_all(seen[0]) and same_on_all(training.flat_weights(model))
    assert same_on_all(own[3]) and same_on_all(own[-1]) == (kf.size() == 1)
    assert np.abs(own[-1] - seen[0]).max() > 1e-6
    expected = own[3] if method == "diloco" else kf.ops.all_gather(own[-1]).numpy().mean(axis=0)
    np.testing.assert_allclose(seen[0], expected, rtol=1e-12)
    if kf.is_root():
        again = model_of("sgd")
        again.load_weights(path)
        np.testing.assert_array_equal(training.flat_weights(again), seen[0])
        os.unlink(path)
    if method == "local":
        np.testing.assert_allclose(training.flat_weights(model), seen[0], rtol=1e-12)
    else:
        np.testing.assert_array_equal(
            training.flat_weights(model), training.flat(algorithm_of(model).state.anchors)
        )
    kf.barrier()


@each(lengths=["short", "long"])
def case_peers_ask_each_other_for_batches_at_meetings(lengths):
    """Data of unknown length: all make as many steps as the peer with the most batches."""
    counts = {"short": [2, 3, 1], "long": [9, 5, 8]}[lengths]
    model, watch = model_of(wrapped("local", 4)), Seen()
    for _ in range(2):  # the rounds of the second call begin where the first has ended
        watch.batches = 0
        model.fit(generator(counts[kf.rank()]), verbose=0, callbacks=[watch])
        assert watch.batches == max(counts)
        assert same_on_all(training.flat_weights(model))


def case_the_rounds_of_later_epochs_end_at_the_meetings():
    """7 batches of an epoch, meetings after each fourth step: 4 | 8, 12 | 16, 20 | 24, 28."""
    counts = [7, 2, 5]
    like = tuple(tf.TensorSpec([None, n], tf.float64) for n in (training.FEATURES, 1))
    dataset = tf.data.Dataset.from_generator(
        lambda: generator(counts[kf.rank()]), output_signature=like
    )
    model, watch = model_of(wrapped("local", 4)), Seen()
    model.fit(dataset, verbose=0, epochs=4, callbacks=[watch])
    assert watch.batches == 4 * 7
    assert int(algorithm_of(model).schedule.steps) == 4 * 7


@each(every=[4, 1000])
def case_a_peer_without_data_goes_on_to_the_end_of_each_epoch(every):
    """The program has set its number of steps, and the others have enough batches."""
    model, watch = model_of(wrapped("local", every)), Seen()
    batches = generator(None if kf.rank() != 1 else 8)
    model.fit(batches, steps_per_epoch=6, epochs=3, verbose=0, callbacks=[watch])
    assert watch.batches == 3 * 6
    assert same_on_all(training.flat_weights(model))


def case_executions_of_several_steps():
    """The number of steps of an epoch is no multiple of theirs."""
    if not training.is_keras_3():
        raise Skip("Keras 2 must know how many steps there are")
    model, watch = model_of(wrapped("local", 4)), Seen()
    model.compile(model.optimizer, "mse", steps_per_execution=3)
    batches = generator([7, 2, 5][kf.rank()])
    model.fit(batches, verbose=0, callbacks=[watch])
    assert int(algorithm_of(model).schedule.steps) == 7
    assert same_on_all(training.flat_weights(model))


def case_a_save_in_the_middle_of_an_epoch():
    """Peers without batches take part in it."""
    path = os.path.join(tempfile.gettempdir(), f"{os.environ['KUNGFU_JOB_ID']}.weights.h5")
    saver = keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_freq=6)
    model, watch = model_of(wrapped("local", 4)), Seen()
    model.fit(generator([7, 2, 5][kf.rank()]), verbose=0, callbacks=[saver, watch])
    assert watch.batches == 7
    if kf.is_root():
        os.unlink(path)
    kf.barrier()


@each(every=[4, 100])
def case_a_callback_stops_all_at_the_next_meeting(every):
    """Or at the end of the epoch. Until then its peer goes on."""

    class Stops(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1 and kf.rank() == 1:
                self.model.stop_training = True

    model, watch = model_of(wrapped("local", every)), Seen()
    fit(model, 10, "arrays", epochs=3, callbacks=[Stops(), watch])
    assert watch.batches == (4 if every == 4 else 10)
    assert same_on_all(training.flat_weights(model))


class Two(keras.Model):
    """Trains each of its parts with an optimizer of its own."""

    def __init__(self, *optimizers):
        super().__init__()
        self.parts = [keras.layers.Dense(1) for _ in range(2)]
        self.optimizers = list(optimizers)

    def call(self, x):
        return sum(part(x) for part in self.parts)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        variables = [part.trainable_variables for part in self.parts]
        gradients = tape.gradient(loss, variables)
        for optimizer, gs, vs in zip(self.optimizers, gradients, variables, strict=True):
            optimizer.apply_gradients(zip(gs, vs, strict=True))
        return {"loss": loss}


def case_several_optimizers_of_a_model():
    """A train step of the program's own, with an update of each."""
    keras.utils.set_random_seed(3)
    model = Two(wrapped("local", 2), wrapped("diloco", 3))
    model.compile()
    fit(model, 7, "arrays")
    assert same_on_all(training.flat_weights(model))
    steps = [int(a.schedule.steps) for a in generations.algorithms_of_model(model)]
    assert steps == [7, 7]


def case_an_anchor_that_differs_is_found():
    """At the end of the epoch in which one peer changes it."""
    model = model_of(wrapped("diloco", 4))

    def change(batch, logs):
        if batch == 4 and kf.rank() == 1:
            anchor = algorithm_of(model).state.anchors[0]
            anchor.assign_add(tf.ones_like(anchor))

    spoils = keras.callbacks.LambdaCallback(on_train_batch_end=change)
    text = raised_by(errors.DivergenceError, lambda: fit(model, 6, "arrays", callbacks=[spoils]))
    assert "anchor" in text and "rank 1" in text and "end of epoch 1" in text, text


@each(method=BOTH)
def case_a_second_fit_begins_where_the_model_is(method):
    model = model_of(wrapped(method, 4, rate=0.0))
    fit(model, 6, "arrays")
    given = [w + 1 for w in model.get_weights()]
    model.set_weights(given)
    fit(model, 6, "arrays")
    np.testing.assert_allclose(training.flat_weights(model), training.flat(given))


class Interrupted(Exception):
    """What ends a training on purpose."""


class Interrupts(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise Interrupted


@each(method=["local", "diloco", "gossip", "mixed"])
def case_a_resumed_training_is_that_of_an_uninterrupted_one(method):
    """If backups are made at meetings."""
    if not training.is_keras_3():
        raise Skip("BackupAndRestore of Keras 2 does not keep the algorithm's state")
    folder = os.path.join(tempfile.gettempdir(), f"{os.environ['KUNGFU_JOB_ID']}-{method}-backup")

    def train(*callbacks):
        model = model_of(wrapped(method, 3))
        x, y = mine(samples(6 * BATCH * kf.size()))
        model.fit(
            x, y, batch_size=BATCH, epochs=5, shuffle=False, verbose=0, callbacks=list(callbacks)
        )
        return model

    whole = train()
    with contextlib.suppress(Interrupted):
        train(keras.callbacks.BackupAndRestore(folder), Interrupts())
    resumed = train(keras.callbacks.BackupAndRestore(folder))
    np.testing.assert_allclose(
        training.flat_weights(resumed), training.flat_weights(whole), rtol=1e-12, atol=1e-12
    )
    assert int(algorithm_of(resumed).schedule.steps) == 5 * 6
    kf.barrier()
    if kf.is_root():
        shutil.rmtree(folder, ignore_errors=True)


@each(method=BOTH)
def case_a_resumed_training_with_data_of_unknown_length(method):
    """Rank 0 alone reads the backup, and the peers ask each other for batches at the meetings."""
    if not training.is_keras_3():
        raise Skip("BackupAndRestore of Keras 2 does not keep the algorithm's state")
    folder = os.path.join(tempfile.gettempdir(), f"{os.environ['KUNGFU_JOB_ID']}-{method}-unknown")

    def train(*callbacks):
        model, watch = model_of(wrapped(method, 5)), Seen()
        backup = keras.callbacks.BackupAndRestore(folder)
        fit(model, 12, "generator dataset", epochs=4, callbacks=[backup, watch, *callbacks])
        return model, watch

    with contextlib.suppress(Interrupted):
        train(Interrupts())
    model, watch = train()
    assert watch.batches == 2 * 12
    assert int(algorithm_of(model).schedule.steps) == 4 * 12
    assert same_on_all(training.flat_weights(model))
    kf.barrier()
    if kf.is_root():
        shutil.rmtree(folder, ignore_errors=True)


def case_the_state_of_two_diloco_optimizers_cannot_be_restored():
    """Which of them trains what, only a step shows."""

    def model_of_two():
        model = Two(wrapped("diloco", 2), wrapped("diloco", 3))
        model.compile()
        return model

    model = model_of_two()
    fit(model, 6, "arrays")
    with tempfile.TemporaryDirectory() as folder:
        algorithm_state.save(model, folder)
        text = raised_by(
            errors.UnimplementedError, lambda: algorithm_state.restore(model_of_two(), folder)
        )
    assert "2 distributed optimizers" in text and "cannot resume" in text, text
