"""Elastic training in a process that is alone, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.context import batch_factor
from kungfu_tf.data.dealt import dealt_of
from kungfu_tf.data.shares import share_of_arrays
from kungfu_tf.keras.elastic import arguments_of_fit
from kungfu_tf.keras.elastic.backup import Backup
from kungfu_tf.keras.elastic.callback_lifetime import CallbackLifetime
from kungfu_tf.keras.fit.asynchronous import AsynchronousElasticRun
from kungfu_tf.keras.fit.elastic_run import ElasticRun
from kungfu_tf.keras.fit.place import Place
from tests.python.unit.keras.small_fit import Interrupted, X, model_of


def test_alone_it_is_fit() -> None:
    models = [model_of("sgd"), model_of("sgd")]
    options = {"epochs": 2, "batch_size": 2, "verbose": 0, "shuffle": False}
    history = kf.elastic.fit(models[0], X, y=X[:, :1], **options)
    models[1].fit(X, X[:, :1], **options)
    assert len(history.history["loss"]) == 2
    for mine, theirs in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


class Given(tf.keras.Model):
    """Notes what its train step is given: dtypes in their structure."""

    def train_step(self, data):
        self.given = tf.nest.map_structure(lambda tensor: tensor.dtype.name, data)
        return {"loss": tf.constant(0.0)}


LABELS = X[:, :1]
ONES = np.ones(len(X), np.float32)
ARRAYS = {
    "x alone": {"x": X},
    "tensors": {"x": tf.constant(X), "y": tf.constant(LABELS)},
    "of two inputs, alone": {"x": [X, X]},
    "of two inputs and outputs": {"x": [X, X], "y": [LABELS, X]},
    "named": {"x": {"a": X, "b": X.astype(np.int64)}, "y": {"c": LABELS}},
    "in double precision": {"x": X.astype(np.float64), "y": LABELS.astype(np.float64)},
    "weights": {"x": X, "y": LABELS, "sample_weight": ONES},
    "weights of two outputs": {"x": X, "y": [LABELS, X], "sample_weight": [ONES, ONES]},
    "weights without labels": {"x": X, "sample_weight": ONES},
}


@pytest.mark.parametrize("arrays", ARRAYS.values(), ids=ARRAYS)
def test_a_train_step_is_given_what_fit_gives_it(arrays) -> None:
    def given_by(fit):
        model = Given()
        model.compile("sgd")
        fit(model, **arrays, batch_size=2, verbose=0)
        return model.given

    assert given_by(kf.elastic.fit) == given_by(tf.keras.Model.fit)


def replayed(orders: list[np.ndarray]) -> list[np.ndarray]:
    """The weights after steps of 2 samples each, in these orders of `X`."""
    model = model_of("sgd")
    for order in orders:
        for begin in range(0, len(order), 2):
            samples = X[order[begin : begin + 2]]
            model.train_on_batch(samples, samples[:, :1])
    return model.get_weights()


def assert_is_trained(model, orders: list[np.ndarray]) -> None:
    for mine, theirs in zip(model.get_weights(), replayed(orders), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def shuffled(epoch: int) -> np.ndarray:
    """The order of arrays in an epoch, for seed 5."""
    return np.random.default_rng((5, epoch)).permutation(len(X))


class AnotherFit(tf.keras.callbacks.Callback):
    """Trains something else in the middle, which is no part of the training."""

    def __init__(self, *within: tf.keras.callbacks.Callback) -> None:
        super().__init__()
        self._within = within

    def on_epoch_end(self, epoch, logs=None):
        model_of("sgd").fit(X, X[:, :1], verbose=0, callbacks=list(self._within))


@pytest.mark.parametrize("kind", ["plain", "synchronous", "pairs"])
def test_alone_arrays_are_dealt_as_to_any_number_of_peers(kind: str) -> None:
    optimizer = {
        "plain": lambda one: one,
        "synchronous": kf.optimizers.SynchronousSGDOptimizer,
        "pairs": kf.optimizers.PairAveragingOptimizer,
    }[kind](tf.keras.optimizers.SGD())
    model = model_of(optimizer)
    options = {"batch_size": 2, "initial_epoch": 1, "epochs": 3, "initial_sample": 2, "seed": 5}
    callbacks = [AnotherFit(AnotherFit())]
    history = kf.elastic.fit(model, X, y=X[:, :1], verbose=0, callbacks=callbacks, **options)
    assert history.epoch == [1, 2]
    assert_is_trained(model, [shuffled(1)[2:], shuffled(2)])


def test_alone_a_scaled_loss_and_a_schedule() -> None:
    """A loss scale of Keras 3 has a learning rate of its own, which is not what it shows."""
    rate = tf.keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.5)
    families = tf.keras.optimizers
    is_keras_3 = hasattr(families, "LossScaleOptimizer")
    scaled = (families if is_keras_3 else tf.keras.mixed_precision).LossScaleOptimizer
    for inner in (families.SGD(0.01), families.SGD(rate)):
        model = model_of(kf.optimizers.SynchronousSGDOptimizer(scaled(inner)))
        history = kf.elastic.fit(model, X, y=X[:, :1], batch_size=2, epochs=2, verbose=0)
        assert len(history.epoch) == 2


def test_alone_a_dataset_goes_on_where_its_position_is() -> None:
    def dataset_at(position: kf.data.Position) -> tf.data.Dataset:
        samples = tf.data.Dataset.range(len(X))
        return kf.data.shard(samples, shuffle=6, seed=5, position=position)

    def order(epoch: int) -> np.ndarray:
        numbers = dataset_at(kf.data.Position(epoch=epoch)).as_numpy_iterator()
        return np.fromiter(numbers, np.int64)

    position = kf.data.Position(epoch=1, sample=2)
    samples = dataset_at(position).map(lambda i: (tf.gather(X, i), tf.gather(X, i)[:1]))
    model = model_of("sgd")
    kf.elastic.fit(model, samples.batch(2).prefetch(4), epochs=4, verbose=0)
    assert (position.epoch, position.sample) == (4, 0)
    orders = [order(1)[2:], order(2), order(3)]
    assert len({tuple(order(epoch)) for epoch in range(4)}) > 1
    assert_is_trained(model, orders)


class Seen(kf.policy.BasePolicy):
    """How far each step is, in steps and samples."""

    def __init__(self) -> None:
        self.far: list[tuple[int, int]] = []

    def after_step(self, training):
        self.far.append((training.step, training.trained_samples))


@pytest.mark.parametrize("last", [5, 6])  # in the middle of an epoch, and at its end
def test_alone_a_backup_goes_on_with_the_next_sample(last: int, tmp_path: Path) -> None:
    def train(model, *more) -> None:
        backup = tf.keras.callbacks.BackupAndRestore(str(tmp_path), save_freq=1)
        options = {"batch_size": 2, "epochs": 3, "seed": 5, "verbose": 0}
        kf.elastic.fit(model, X, y=X[:, :1], callbacks=[backup, *more], **options)

    with pytest.raises(KeyboardInterrupt):
        train(model_of("sgd"), Interrupted(last))
    model, seen = model_of("sgd"), Seen()
    train(model, kf.callbacks.PolicyCallback([seen]))
    assert_is_trained(model, [shuffled(0), shuffled(1), shuffled(2)])
    assert seen.far == [(step, 2 * step) for step in range(last + 1, 10)]


class Settings(kf.policy.BasePolicy):
    """What each step begins with."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, float]] = []

    def before_step(self, training):
        self.seen.append((training.batch_size, round(training.learning_rate, 6)))


@pytest.mark.parametrize("order", [1, -1])
def test_a_backup_goes_on_with_the_batch_size_that_it_had(order: int, tmp_path: Path) -> None:
    """The learning rate that was scaled with it is restored, so it is not scaled once more."""

    def train(*more) -> list[tuple[int, float]]:
        seen = Settings()
        schedule = kf.policy.ScheduledBatchSizePolicy("2:2,4:100", scale_learning_rate="linear")
        policies = kf.callbacks.PolicyCallback([schedule, seen])
        backup = tf.keras.callbacks.BackupAndRestore(str(tmp_path), save_freq=1)
        callbacks = [*[backup, policies][::order], *more]
        options = {"batch_size": 2, "epochs": 6, "verbose": 0, "callbacks": callbacks}
        kf.elastic.fit(model_of("sgd"), X, y=X[:, :1], **options)
        return seen.seen

    with pytest.raises(KeyboardInterrupt):
        train(Interrupted(4))
    assert set(train()) == {(4, 0.02)}


def of_shards(batch: int, **options) -> tf.data.Dataset:
    samples = tf.data.Dataset.from_tensor_slices((X, X[:, :1]))
    return kf.data.shard(samples, position=kf.data.Position()).batch(batch, **options)


def test_what_measures_by_batches_begins_with_that_of_the_callback() -> None:
    class Factors(kf.policy.BasePolicy):
        def __init__(self) -> None:
            self.seen: list[float] = []

        def after_step(self, training):
            self.seen.append(float(batch_factor.factor.get()))

    factors = Factors()
    callback = kf.callbacks.PolicyCallback([factors], batch_size=3)
    kf.elastic.fit(model_of("sgd"), of_shards(2), verbose=0, callbacks=[callback])
    assert factors.seen == [1.0, 1.0]


def test_batches_that_change_leave_nothing_out() -> None:
    callback = kf.callbacks.PolicyCallback([Seen()])
    with pytest.raises(ValueError, match="drop_remainder=True cannot be"):
        dataset = of_shards(4, drop_remainder=True)
        kf.elastic.fit(model_of("sgd"), dataset, verbose=0, callbacks=[callback])


def test_a_loop_alone() -> None:
    state = kf.elastic.ElasticState(3)
    seen = []
    while not state.stopped():
        with kf.elastic.ElasticContext(state) as should_sync:
            seen.append(should_sync)
    assert seen == [True, False, False]
    assert (state.progress, state.stop_reason()) == (3, "finished")
    assert kf.elastic.ElasticState(3, progress=3).stopped()
    with pytest.raises(ValueError, match="not negative"):
        kf.elastic.ElasticState(-1)
    state = kf.elastic.ElasticState(10)
    with pytest.raises(KeyError), kf.elastic.ElasticContext(state, progress=4):
        raise KeyError
    assert state.progress == 0


def test_what_cannot_be_trained_is_an_error() -> None:
    plain = model_of("sgd")
    with pytest.raises(kf.errors.FailedPreconditionError, match=r"an optimizer of kungfu_tf"):
        arguments_of_fit.check_optimizers(plain)
    pairs = kf.optimizers.PairAveragingOptimizer(tf.keras.optimizers.SGD())
    arguments_of_fit.check_optimizers(model_of(pairs))
    ours = model_of(kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD()))
    arguments_of_fit.check_optimizers(ours)
    ours.another = pairs
    with pytest.raises(kf.errors.FailedPreconditionError, match=r"SGD and .*only some have peers"):
        arguments_of_fit.check_optimizers(ours)
    for argument in ("steps_per_epoch", "validation_split"):
        with pytest.raises(ValueError, match=argument):
            kf.elastic.fit(plain, X, **{argument: 1})
    given = {"x": "text", "y": None, "sample_weight": None, "initial_epoch": 0}
    with pytest.raises(TypeError, match="not str"):
        arguments_of_fit.deal_data(plain, given, 0, 0)


def test_where_peers_do_not_meet_backups_are_made_at_the_end_of_epochs(tmp_path: Path) -> None:
    data = share_of_arrays((X,), kf.data.Position(), 2, shuffle=False, seed=0)
    elastic_run, model = AsynchronousElasticRun(dealt_of(data)), model_of("sgd")
    keras_backup = tf.keras.callbacks.BackupAndRestore
    Backup(keras_backup(str(tmp_path)), model, elastic_run)
    often = keras_backup(str(tmp_path), save_freq=3)
    Backup(often, model, ElasticRun(dealt_of(data)))
    with pytest.raises(ValueError, match=r"save_freq=3 cannot be: the peers do not meet"):
        Backup(often, model, elastic_run)


def test_callbacks_see_one_training() -> None:
    calls: list[str] = []
    callback = SimpleNamespace(
        on_train_begin=lambda logs=None: calls.append("begin"),
        on_epoch_begin=lambda epoch, logs=None: calls.append(f"epoch {epoch}"),
        on_train_end=lambda logs=None: calls.append("end"),
    )
    with CallbackLifetime([callback]) as lifetime:
        for epoch in (0, 0, 1):  # 0 in two parts
            callback.on_train_begin()
            callback.on_epoch_begin(epoch)
            callback.on_train_end()
        assert lifetime.has_begun(callback)
        lifetime.end({}, but=(tf.keras.callbacks.BackupAndRestore,))
    assert calls == ["begin", "epoch 0", "epoch 1", "end"]
    callback.on_train_end()  # its own again, as those of LambdaCallback
    assert calls[4:] == ["end"]


def test_who_leaves_keeps_the_backup() -> None:
    calls: list[str] = []
    callback = SimpleNamespace(
        on_train_begin=lambda _logs: None,
        on_epoch_begin=None,
        on_train_end=lambda _logs: calls.append("end"),
    )
    with CallbackLifetime([callback]) as lifetime:
        callback.on_train_begin()
        lifetime.end({}, but=(SimpleNamespace,))
    assert calls == []


def test_who_comes_when_a_training_has_ended_has_neither_begun_nor_ended_it() -> None:
    policy = kf.callbacks.PolicyCallback([Seen()])
    options = {"initial_epoch": 2, "epochs": 2, "verbose": 0, "callbacks": [policy]}
    history = kf.elastic.fit(model_of("sgd"), X, y=X[:, :1], **options)
    assert history.history == {}


def test_where_a_position_is_found() -> None:
    position = kf.data.Position(epoch=1, sample=4)
    dataset = share_of_arrays((X,), position, 4, shuffle=False, seed=0)
    assert dealt_of(dataset.prefetch(1)).position is position
    assert [len(batch) for (batch,) in dataset] == [2]
    position.commit(2)
    assert (position.epoch, position.sample) == (2, 0)
    with pytest.raises(ValueError, match="0 samples or more"):
        position.commit(-1)


@pytest.mark.parametrize("batch_size", [None, 0, 32])
@pytest.mark.parametrize("gaps", [(), (3, 5)])
def test_a_place_travels_as_integers(batch_size: int | None, gaps: tuple[int, ...]) -> None:
    place = Place(1, 2, 7, 10, 4, 300, batch_size, gaps)
    assert Place.from_integers(place.to_integers()) == place
