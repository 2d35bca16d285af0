"""Rank 0 of three leaves its session, and the next one writes on in its place; prints "ok" on each.

However long its first checkpoint takes, the other one waits for it. Where TensorFlow has Estimators
the session is that of one, in which all peers print, and rank 0 evaluates.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from pathlib import Path

import tensorflow as tf
from elastic_server import Server, wait_for_change, wait_until
from support import logged

import kungfu_tf as kf
from kungfu_tf.tf1.session import ending_agreement

v1 = tf.compat.v1
STEPS, EVERY, KEPT = 20, 2, 5
FIRST, LAST = 3, 7  # steps after which others come, and the first rank 0 leaves
FOLDER = Path(sys.argv[2]).parent / "checkpoints"
HAS_LEFT = FOLDER.with_name("left")


class Saves(v1.train.CheckpointSaverListener):
    """Notes the steps at which this peer has saved.

    Another rank 0 takes, for its first, until all have heard often that it is busy.
    """

    def __init__(self):
        self.steps, self.is_known, self.told = [], threading.Event(), 0

    def after_save(self, session, step):
        self.steps.append(int(step))
        if step == LAST:
            assert self.is_known.wait(60), "nobody has heard that rank 0 is busy"

    @contextlib.contextmanager
    def listening(self):
        met, pulse = ending_agreement._meet, ending_agreement.PULSE

        def meet(answer):
            self.told += answer == ending_agreement._BUSY and kf.is_root()
            if self.told >= 3:
                self.is_known.set()
            return met(answer)

        ending_agreement._meet, ending_agreement.PULSE = meet, 0.01
        try:
            yield
        finally:
            ending_agreement._meet, ending_agreement.PULSE = met, pulse


class Evaluations(v1.train.SessionRunHook):
    """Notes the steps at which this peer has evaluated."""

    def __init__(self):
        self.steps = []

    def begin(self):
        self.step = v1.train.get_global_step()

    def end(self, session):
        self.steps.append(int(session.run(self.step)))


class Changes(v1.train.SessionRunHook):
    """Two peers come, and the first one leaves after its last step; notes the variables."""

    def __init__(self, server):
        self.server, self.last = server, {}

    def begin(self):
        self.variables = {v.op.name: v.read_value() for v in v1.global_variables()}

    def after_run(self, run_context, run_values):
        self.last = run_context.session.run(self.variables)
        if kf.size() == 1 and self.last["global_step"] == FIRST:
            kf.propose_new_size(3)
            wait_for_change()
        elif kf.rank() == 0 and kf.size() == 3 and self.last["global_step"] == LAST:
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


def writers_of(loss):
    """What writes and prints each step."""
    summary = v1.summary.scalar("seen", loss, collections=[])  # not Estimator's, too
    return [
        v1.train.SummarySaverHook(save_steps=1, output_dir=str(FOLDER), summary_op=summary),
        v1.train.LoggingTensorHook({"seen": loss}, every_n_iter=1),
    ]


def train_session(hooks, saves):
    scaffold, folder = v1.train.Scaffold(), str(FOLDER)
    saver = v1.train.CheckpointSaverHook(
        folder, save_steps=EVERY, scaffold=scaffold, listeners=[saves]
    )
    with tf.Graph().as_default():
        numbers, _ = v1.data.make_one_shot_iterator(input_fn()).get_next()
        loss, train = trained_by(numbers)
        hooks = [*hooks, saver, *writers_of(loss)]
        with v1.train.MonitoredTrainingSession(scaffold=scaffold, hooks=hooks) as session:
            while not session.should_stop():
                session.run(train)


def train_estimator(hooks, saves, evaluations):
    def model_fn(features, labels, mode):
        loss, train = trained_by(features)
        return v1.estimator.EstimatorSpec(
            mode, loss=loss, train_op=train, training_hooks=writers_of(loss)
        )

    config = v1.estimator.RunConfig(
        save_checkpoints_steps=EVERY, keep_checkpoint_max=KEPT, log_step_count_steps=1
    )
    estimator = v1.estimator.Estimator(model_fn, str(FOLDER), config)
    evaluator = v1.estimator.experimental.InMemoryEvaluatorHook(
        estimator, input_fn, steps=1, hooks=[evaluations], every_n_iter=STEPS
    )
    estimator.train(input_fn, hooks=[*hooks, evaluator], saving_listeners=[saves])
    if kf.is_root():
        assert estimator.evaluate(input_fn, steps=1)["global_step"] == STEPS


def summarised(tag):
    """The steps at which some peer has written it."""
    events = [e for path in FOLDER.glob("events.*") for e in v1.train.summary_iterator(str(path))]
    return sorted(e.step for e in events for value in e.summary.value if value.tag == tag)


def is_a_later_second():
    """TensorFlow names a file of events by the second of its beginning, and by nothing else."""
    begun = [int(path.name.split(".")[3]) for path in FOLDER.glob("events.*")]
    return time.time() >= max(begun, default=0) + 1


def main() -> None:
    server = Server()
    if kf.joining():
        wait_until(is_a_later_second, "the clock stands still")
    else:
        server.start()
    changes, saves, evaluations = Changes(server), Saves(), Evaluations()
    hooks = [kf.hooks.ElasticHook(None, STEPS), changes]
    has_estimators = hasattr(v1, "estimator")
    with logged("tensorflow") as lines, saves.listening():
        if has_estimators:
            os.environ["KUNGFU_VERBOSE"] = "all"
            train_estimator(hooks, saves, evaluations)
        else:
            train_session(hooks, saves)
    server.end()
    printed = sum(line.startswith("seen = ") for line in lines)
    if kf.rank() == 1:
        assert not saves.steps and not evaluations.steps
        assert printed == (STEPS - FIRST if has_estimators else 0), lines
        print("ok", kf.rank(), flush=True)
        return
    if kf.detached():
        HAS_LEFT.touch()
        assert saves.steps == [*range(0, LAST, EVERY)], saves.steps
        assert printed == LAST, lines
        assert evaluations.steps == [0] * has_estimators, evaluations.steps
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
    wait_until(HAS_LEFT.exists, "the other has not closed its files")
    assert summarised("seen") == [*range(1, STEPS + 1)], summarised("seen")
    assert printed == STEPS - (FIRST if has_estimators else LAST), lines
    if has_estimators:
        assert evaluations.steps == [LAST, STEPS], evaluations.steps
        rates = summarised("global_step/sec")
        assert rates == [*range(2, STEPS + 1)], rates
    print("ok", kf.rank(), flush=True)


if __name__ == "__main__":
    main()
