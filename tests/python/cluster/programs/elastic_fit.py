"""`elastic.fit` through 1, 4 and 2 peers in the middle of an epoch; prints "ok" on each.

A config server's document asks for them, which comes later than the job, and ends in between; the
second time in the middle of an execution of four steps, of a function that is traced once. Rank 0
then trains alone on what each step has had, and must have the same weights. In a second training
policies change the peers, and the batches, and what callbacks have noted reaches a newcomer; in a
third rank 0 leaves, within an execution, and another peer writes its files on. In a fourth each has
a model of its own, and who stays goes on from the average.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import training
from elastic_server import Server, wait_for_change
from monitors import steps_in

import kungfu_tf as kf

SAMPLES, BATCH, EPOCHS, SEED, RATE = 103, 4, 3, 5, 0.05
keras = tf.keras
keras.backend.set_floatx("float64")


class Seen(keras.metrics.Metric):
    """How far each sample is from having been seen once in an epoch, by all peers."""

    def __init__(self):
        super().__init__(name="seen")
        self.counts = self.add_weight(name="counts", shape=(SAMPLES,), initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        numbers = tf.cast(y_true[:, 1], tf.int32)
        self.counts.assign_add(tf.reduce_sum(tf.one_hot(numbers, SAMPLES, dtype="float64"), axis=0))

    def reset_state(self):
        self.counts.assign(tf.zeros([SAMPLES], "float64"))

    def result(self):
        return tf.reduce_max(tf.abs(self.counts - 1.0))


class Steps(keras.callbacks.Callback):
    """Notes how many peers made each step, in the graph and after executions, and changes them.

    A newcomer's `traces` are those before it was taken in.
    """

    def __init__(self, server):
        super().__init__()
        self.server, self.is_newcomer, self.traces = server, kf.joining(), None
        self.made, self.sizes, self.begun, self.epochs = [], [], 0, []

    def on_train_begin(self, logs=None):
        self.begun += 1

    def on_epoch_begin(self, epoch, logs=None):
        self.epochs.append(epoch)
        if self.is_newcomer and self.traces is None:
            self.traces = traces

    def on_train_batch_end(self, batch, logs=None):
        self.sizes.append(kf.size())
        if self.traces is None:
            self.traces = traces
        if kf.rank() == 0 and len(self.made) == 4:
            self.server.start()
            more = ["127.0.0.1:1", "0.0.0.0:1", "0.0.0.0:2"]
            self.server.change(lambda workers: [*workers, *more])
            wait_for_change()

    def in_step(self):
        self.made.append(kf.size())
        if kf.rank() == 0 and len(self.made) == 9:
            self.server.stop()
        elif kf.rank() == 0 and len(self.made) == 10:
            self.server.start()
            self.server.change(lambda workers: [workers[0], workers[2]])
            wait_for_change()


class Epochs(keras.callbacks.Callback):
    """Logs something that grows."""

    def on_epoch_end(self, epoch, logs=None):
        logs["epochs"] = float(epoch)


class Wait(keras.callbacks.Callback):
    """Waits until what a policy has asked for is there; all peers make each step with one rate."""

    def __init__(self, steps):
        super().__init__()
        self.steps, self.sizes, self.rates = steps, [], []

    def rate(self):
        rate = float(np.asarray(self.model.optimizer.learning_rate))
        assert kf.ops.consensus(np.array(rate)), rate
        return rate

    def on_train_batch_begin(self, batch, logs=None):
        self.rate()  # a newcomer has the job's before it is looked at

    def on_train_batch_end(self, batch, logs=None):
        self.sizes.append(kf.size())
        self.rates.append(self.rate())
        if kf.rank() == 0 and len(self.sizes) in self.steps:
            wait_for_change()


class Models(keras.callbacks.Callback):
    """Everybody's model after each step; rank 0 stays alone after some."""

    def __init__(self):
        super().__init__()
        self.models, self.sizes = None, []

    def weights(self):
        return np.concatenate([w.ravel() for w in self.model.get_weights()])

    def on_train_batch_begin(self, batch, logs=None):
        if self.sizes and self.sizes[-1] != kf.size():
            assert np.abs(self.models - self.models[0]).max() > 1e-3
            mean = self.models.mean(axis=0)
            np.testing.assert_allclose(self.weights(), mean, rtol=1e-12, atol=1e-14)

    def on_train_batch_end(self, batch, logs=None):
        self.sizes.append(kf.size())
        self.models = kf.ops.all_gather(self.weights()).numpy()
        if kf.rank() == 0 and len(self.sizes) == 5:
            kf.propose_new_size(1)
            wait_for_change()


traces = 0


def loss(y_true, y_pred):
    global traces
    traces += 1
    return tf.reduce_mean(tf.square(y_true[:, :1] - y_pred), axis=-1)


def noting(step):
    """The loss, which calls `step` in each."""

    def noted(y_true, y_pred):
        with tf.control_dependencies([tf.numpy_function(step, [], [])]):
            return loss(tf.identity(y_true), y_pred)

    return noted


def model_of(optimizer, loss=loss, **arguments):
    keras.utils.set_random_seed(11)
    layers = [keras.layers.Input((3,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile(optimizer, loss, metrics=[Seen()], **arguments)
    return model


def check_weights(model, x, y, epochs, sizes):
    expected = replayed(x, y, epochs, sizes)
    for mine, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


def replayed(x, y, epochs, sizes):
    """What one process has after the same steps."""
    model = model_of(keras.optimizers.SGD(RATE, momentum=0.9))
    steps = iter(sizes)
    for epoch in range(epochs):
        order = np.random.default_rng((SEED, epoch)).permutation(SAMPLES)
        while len(order):
            count = next(steps) * BATCH
            model.train_on_batch(x[order[:count]], y[order[:count]])
            order = order[count:]
    assert next(steps, None) is None
    return model


def with_policies(model, x, y) -> None:
    """2 peers with batches twice as large from step 7 on, then 3 in the middle of epoch 2.

    The rate grows with the batches.
    """
    numbers = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = kf.data.shard(numbers, shuffle=32).map(lambda x, y: (x, y)).batch(BATCH).prefetch(8)
    policies = [
        kf.policy.ScheduledClusterSizePolicy("2:14,3:100"),
        kf.policy.ScheduledBatchSizePolicy(
            f"{BATCH}:7,{2 * BATCH}:9", scale_learning_rate="linear"
        ),
    ]
    wait = Wait([15])
    stop = keras.callbacks.EarlyStopping(
        "epochs", mode="min", patience=1, restore_best_weights=True
    )
    logs = str(Path(sys.argv[2]).with_name("logs"))
    monitor = kf.callbacks.MonitorCallback(log_dir=logs)
    callbacks = [kf.callbacks.PolicyCallback(policies), wait, Epochs(), stop, monitor]
    history = kf.elastic.fit(model, dataset, epochs=9, verbose=0, callbacks=callbacks)
    assert history.history["seen"] == [0.0, 0.0], history.history
    assert history.history["batch_size"] == [2 * BATCH] * 2, history.history
    assert history.epoch == [0, 1]
    assert (stop.best, stop.best_epoch, stop.stopped_epoch) == (0.0, 0, 1)
    assert kf.ops.consensus(np.concatenate([w.ravel() for w in model.get_weights()]))
    shown = steps_in(logs)["step_time"]
    assert kf.ops.consensus(np.array(shown[-1])), shown
    if kf.rank() == 0:
        assert len(shown) == 2 and shown[-1] == len(wait.sizes), shown
        assert wait.sizes[:15] == [2] * 15 and set(wait.sizes[16:]) == {3}, wait.sizes
        expected = [RATE] * 6 + [2 * RATE] * (len(wait.rates) - 6)
        np.testing.assert_allclose(wait.rates, expected, rtol=1e-6)


def in_executions(x, y, server) -> None:
    """3 peers, of which the first leaves: that is known in the middle of an execution's steps."""
    folder = Path(sys.argv[2]).parent
    sizes = []

    def step():
        sizes.append(kf.size())
        if kf.rank() == 0 and len(sizes) == 11:
            server.change(lambda workers: workers[1:])
            wait_for_change()

    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(RATE, momentum=0.9))
    model = model_of(optimizer, noting(step), steps_per_execution=4)
    callbacks = [
        keras.callbacks.BackupAndRestore(str(folder / "backup"), delete_checkpoint=False),
        keras.callbacks.CSVLogger(str(folder / "log.csv")),
        keras.callbacks.ModelCheckpoint(
            str(folder / "best.weights.h5"),
            "epochs",
            mode="min",
            save_best_only=True,
            save_weights_only=True,
        ),
    ]
    arguments = {"batch_size": BATCH, "verbose": 0, "seed": SEED, "epochs": 3}
    history = kf.elastic.fit(model, x, y=y, callbacks=[Epochs(), *callbacks], **arguments)
    if kf.detached():
        return
    assert set(history.history["seen"]) == {0.0}, history.history
    # The next execution brings it to all.
    single, executed = [3] * 12 + [2] * 22, [3] * 17 + [2] * 14
    assert sizes == (single if training.takes_single_steps() else executed), sizes
    check_weights(model, x, y, 3, sizes)
    assert callbacks[2].best == 0.0
    if kf.rank() == 0:
        rows = (folder / "log.csv").read_text().splitlines()
        assert [row.split(",")[0] for row in rows] == ["epoch", "0", "1", "2"]


def averaging(x, y) -> None:
    optimizer = kf.optimizers.SynchronousAveragingOptimizer(keras.optimizers.SGD(0.05))
    models = Models()
    arguments = {"batch_size": BATCH, "verbose": 0, "seed": SEED}
    kf.elastic.fit(model_of(optimizer), x, y=y, callbacks=[models], **arguments)
    assert models.sizes == [2] * 6 + ([1] * 14 if kf.rank() == 0 else []), models.sizes


def main() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(SAMPLES, 3))
    y = np.stack([np.sin(x.sum(axis=1)), np.arange(SAMPLES)], axis=1)
    optimizers = [keras.optimizers.SGD(RATE, momentum=0.9) for _ in range(2)]
    for optimizer in optimizers:
        kf.optimizers.MonitorGradientVarianceOptimizer(optimizer, monitor_interval=3)
    server = Server()
    steps = Steps(server)
    model = model_of(optimizers[0], noting(steps.in_step), steps_per_execution=4)
    history = kf.elastic.fit(
        model,
        x,
        y=y,
        batch_size=BATCH,
        epochs=EPOCHS,
        verbose=0,
        callbacks=[steps],
        seed=SEED,
    )
    if kf.detached():
        assert kf.size() == 0
        print("ok detached", flush=True)
        return
    if steps.sizes:  # else it has come to the second training
        assert steps.begun == 1, steps.begun
        assert len(set(steps.epochs)) == len(steps.epochs), steps.epochs
        assert 0 < steps.traces == traces, "something was traced anew, or late"
        assert set(history.history["seen"]) == {0.0}, history.history
    if kf.rank() == 0:
        # What is asked for within an execution the next one brings to all.
        single = [1] * 5 + [4] * 7 + [2] * 24
        executed = [1] * 8 + [4] * 9 + [2] * 18
        assert steps.made == (single if training.takes_single_steps() else executed), steps.made
        assert len(history.history["loss"]) == EPOCHS
        check_weights(model, x, y, EPOCHS, steps.made)
    model = model_of(optimizers[1])
    with_policies(model, x, y)
    variance = optimizers[1].kungfu_algorithm.metrics["gradient_variance"].numpy()
    assert kf.ops.consensus(np.array(variance)) and variance > 0, variance
    in_executions(x, y, server)
    if not kf.detached():
        averaging(x, y)
    server.end()
    if kf.detached():
        print("ok detached", flush=True)
        return
    assert kf.ops.consensus(np.concatenate([w.ravel() for w in model.get_weights()]))
    print("ok", kf.rank(), len(steps.sizes) > 0, flush=True)


if __name__ == "__main__":
    main()
