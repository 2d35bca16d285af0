"""Rank 0 of a session leaves, and the next one saves on in its place; prints "ok" on each.

Where TensorFlow has Estimators, that of one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tensorflow as tf
from elastic_server import Server, wait_for_change

import kungfu_tf as kf

v1 = tf.compat.v1
STEPS, EVERY, KEPT = 20, 2, 5
LAST = 7  # step of the first rank 0
FOLDER = Path(sys.argv[2]).parent / "checkpoints"


class Saves(v1.train.CheckpointSaverListener):
    """Notes the steps at which this peer has saved."""

    def __init__(self):
        self.steps = []

    def after_save(self, session, step):
        self.steps.append(int(step))


class Changes(v1.train.SessionRunHook):
    """Another peer comes, and the first one leaves after its last step; notes the variables."""

    def __init__(self, server):
        self.server, self.last = server, {}

    def begin(self):
        self.variables = {v.op.name: v.read_value() for v in v1.global_variables()}

    def after_run(self, run_context, run_values):
        self.last = run_context.session.run(self.variables)
        if kf.size() == 1 and self.last["global_step"] == 3:
            kf.propose_new_size(2)
            wait_for_change()
        elif kf.rank() == 0 and kf.size() == 2 and self.last["global_step"] == LAST:
            self.server.change(lambda workers: workers[1:])
            wait_for_change()


def input_fn():
    data = tf.data.Dataset.range(10**6).shuffle(100, seed=kf.uid() % 2**31).repeat().batch(4)
    return data.map(lambda x: (tf.cast(x, tf.float64), tf.cast(x, tf.float64)))


def trained_by(numbers):
    """The loss, and the operation that trains."""
    weight = v1.get_variable("weight", [], tf.float64, initializer=v1.ones_initializer())
    optimizer = kf.optimizers.SynchronousSGDOptimizer(v1.train.MomentumOptimizer(1e-9, 0.9))
    loss = weight * tf.reduce_mean(numbers)
    return loss, optimizer.minimize(loss, v1.train.get_or_create_global_step())


def train_session(hooks, saves):
    scaffold, folder = v1.train.Scaffold(), str(FOLDER)
    saver = v1.train.CheckpointSaverHook(
        folder, save_steps=EVERY, scaffold=scaffold, listeners=[saves]
    )
    hooks = [*hooks, saver]
    with tf.Graph().as_default():
        numbers, _ = v1.data.make_one_shot_iterator(input_fn()).get_next()
        _, train = trained_by(numbers)
        with v1.train.MonitoredTrainingSession(scaffold=scaffold, hooks=hooks) as session:
            while not session.should_stop():
                session.run(train)


def train_estimator(hooks, saves):
    def model_fn(features, labels, mode):
        loss, train = trained_by(features)
        return v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    config = v1.estimator.RunConfig(save_checkpoints_steps=EVERY, keep_checkpoint_max=KEPT)
    estimator = v1.estimator.Estimator(model_fn, str(FOLDER), config)
    estimator.train(input_fn, hooks=hooks, saving_listeners=[saves])
    if kf.is_root():
        assert estimator.evaluate(input_fn, steps=1)["global_step"] == STEPS


def main() -> None:
    server = Server()
    if not kf.joining():
        server.start()
    changes, saves = Changes(server), Saves()
    hooks = [kf.hooks.ElasticHook(None, STEPS), changes]
    has_estimators = hasattr(v1, "estimator")
    (train_estimator if has_estimators else train_session)(hooks, saves)
    server.end()
    if kf.detached():
        assert changes.last["global_step"] == LAST
        assert saves.steps == [*range(0, LAST, EVERY)], saves.steps
        print("ok detached", flush=True)
        return
    saved = v1.train.load_checkpoint(str(FOLDER))
    assert saved.get_variable_to_shape_map().keys() == changes.last.keys()
    for name, value in changes.last.items():
        assert saved.get_tensor(name) == value, name
    # At once when the other has left, and then as always; no more are kept than ever.
    assert saves.steps == [*range(LAST, STEPS, EVERY), STEPS], saves.steps
    files = [re.search(r"-(\d+)\.index", str(path)) for path in FOLDER.glob("*.index")]
    assert sorted(int(match[1]) for match in files) == saves.steps[-KEPT:], files
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
