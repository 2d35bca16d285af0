"""`elastic.fit` of peers that do not meet in each step, through 1, 3, 2, 4 and 3; prints "ok".

A peer waits in the middle of what it was dealt until the others are through, which would wait for
it if they met; then it changes who takes part. What it has not trained on is dealt to all of the
next ones: of three samples the last of four peers gets none. In the first step of others each has
the average of the models that there were. In a second training all hear of a change in the middle,
and one stops all; in a third nobody has enough samples for a batch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import training
from elastic_fit import BATCH, SAMPLES, model_of, noting
from elastic_server import Server, wait_for_change, wait_until

import kungfu_tf as kf

STEPS_PER_EXECUTION = 3
BEFORE = {3: 1, 2: 3, 4: 2}  # how many peers there were before
FOLDER = Path(sys.argv[2]).parent
keras = tf.keras


def executions(number, *, steps):
    """How many executions make that many steps: `number`, where an epoch's last may be shorter."""
    return steps if training.takes_single_steps() else number


class Executions(keras.callbacks.Callback):
    """Counts the executions of this peer since there are so many peers, in each epoch."""

    def __init__(self):
        super().__init__()
        self.epoch, self.begun, self.made = 0, None, 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.begun != (self.epoch, kf.size()):
            self.begun, self.made = (self.epoch, kf.size()), 0
        self.made += 1
        self.after(self.epoch, kf.size(), kf.rank(), self.made)


class Changes(Executions):
    """Changes the peers when all but the last one are through, and notes every model before."""

    def __init__(self, server):
        super().__init__()
        self.server, self.size, self.averaged = server, 1, 0

    def after(self, epoch, size, rank, made):
        if (size, made) == (1, executions(1, steps=3)):
            self.note()
            kf.propose_new_size(3)
            wait_for_change()
        elif size == 3 and rank < 2 and made == executions(3, steps=8):
            self.note()
        elif (size, rank, made) == (3, 2, executions(1, steps=3)):
            self.wait_for_others()
            self.server.change(lambda workers: workers[1:])
            wait_for_change()
        elif (epoch, size, rank, made) == (1, 2, 0, executions(5, steps=13)):
            self.note()
        elif (epoch, size, rank, made) == (1, 2, 1, executions(4, steps=12)):
            self.wait_for_others()
            kf.propose_new_size(4)
            wait_for_change()

    def note(self):
        """This peer makes no more steps before the change."""
        new = FOLDER / f"new-{kf.rank()}.npy"
        np.save(new, self.weights())
        new.rename(self.noted(kf.size(), kf.rank()))

    def wait_for_others(self):
        others = [self.noted(kf.size(), rank) for rank in range(kf.size() - 1)]
        wait_until(lambda: all(path.exists() for path in others), "the others wait for this peer")
        self.note()

    def in_step(self):
        """Before the model is changed."""
        if kf.joining() or kf.size() == self.size:
            return
        self.size = kf.size()
        size = BEFORE[self.size]
        models = np.stack([np.load(self.noted(size, rank)) for rank in range(size)])
        assert size == 1 or np.ptp(models, axis=0).max() > 1e-6
        np.testing.assert_allclose(self.weights(), models.mean(axis=0), rtol=1e-12, atol=1e-14)
        self.averaged += 1

    def noted(self, size, rank):
        return FOLDER / f"model-{size}-{rank}.npy"

    def weights(self):
        return weights_of(self.model)


class InTheMiddle(Executions):
    """Rank 0 asks for less peers when it is ahead of rank 1; later the last one stops all."""

    def __init__(self):
        super().__init__()
        self.ahead = FOLDER / "ahead"

    def after(self, epoch, size, rank, made):
        if (size, rank, made) == (4, 0, 3):
            self.ahead.touch()
            kf.propose_new_size(3)
        if (size, rank, made) == (4, 1, 1):
            wait_until(self.ahead.exists, "rank 0 waits for this peer")
        if size == 4 and (rank, made) in [(0, 3), (1, 1), (2, 5)]:
            wait_for_change()
        self.model.stop_training |= (epoch, size, rank, made) == (1, 3, 2, 1)


def weights_of(model):
    return np.concatenate([w.ravel() for w in model.get_weights()])


def pairs():
    return kf.optimizers.PairAveragingOptimizer(keras.optimizers.SGD(0.05, momentum=0.9))


def when_others_are_through(x, y, server):
    changes = Changes(server)
    loss = noting(changes.in_step)
    model = model_of(pairs(), loss, steps_per_execution=STEPS_PER_EXECUTION)
    history = kf.elastic.fit(
        model, x, y=y, batch_size=BATCH, epochs=3, seed=5, verbose=0, callbacks=[changes]
    )
    if kf.detached():
        return
    assert history.history["seen"] == [0.0] * 3, history.history
    assert changes.averaged > 0 and changes.size == 4
    assert kf.ops.consensus(weights_of(model))


def in_the_middle(x, y):
    samples = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = kf.data.shard(samples, shuffle=32).map(lambda x, y: (x, y)).batch(BATCH).prefetch(8)
    model = model_of(pairs())
    middle = InTheMiddle()
    history = kf.elastic.fit(model, dataset, epochs=9, verbose=0, callbacks=[middle])
    if kf.detached():
        return
    assert history.epoch == [0, 1], history.epoch
    assert history.history["seen"][0] == 0.0, history.history
    assert middle.made == (1 if kf.rank() == 2 else 9), middle.made
    assert kf.ops.consensus(weights_of(model))


def with_too_few(x, y):
    """For a batch, that is, and what is too little is left out."""
    for optimizer in (pairs(), kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.05))):
        samples = tf.data.Dataset.from_tensor_slices((x[:2], y[:2]))
        dataset = kf.data.shard(samples).batch(BATCH, drop_remainder=True)
        model = model_of(optimizer)
        before = weights_of(model)
        history = kf.elastic.fit(model, dataset, epochs=2, verbose=0)
        assert history.epoch == [0, 1], history.epoch
        np.testing.assert_array_equal(weights_of(model), before)


def main() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(SAMPLES, 3))
    y = np.stack([np.sin(x.sum(axis=1)), np.arange(SAMPLES)], axis=1)
    server = Server()
    if not kf.joining():
        server.start()
    when_others_are_through(x, y, server)
    if not kf.detached():
        in_the_middle(x, y)
    if not kf.detached():
        with_too_few(x, y)
    server.end()
    print("ok", "detached" if kf.detached() else kf.rank(), flush=True)


if __name__ == "__main__":
    main()
