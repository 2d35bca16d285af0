"""MonitoredTrainingSession and Session: rank 0 writes, all peers start equal and stop together."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import sessions
import tensorflow as tf
import training
from harness import each, exhaustive
from sessions import Network, assert_equal, batches_of, distributed, monitored, train
from support import logged, raised_by

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import Algorithm
from kungfu_tf.tf1.session import ending_agreement

JOBS = [{"np": 3}]
TIMEOUT = 150
NEEDS_KERAS = False

v1 = tf.compat.v1

BATCHES = [10, 7, 1]  # of each rank


class Plain(v1.train.SessionRunHook):
    """Calls a function after each run, with the number of runs."""

    def __init__(self, function) -> None:
        self.function = function
        self.runs = 0

    def after_run(self, run_context, run_values) -> None:
        self.runs += 1
        self.function(run_context, self.runs)


def step_of(values) -> int:
    [step] = [value for value in values if value.ndim == 0]
    return int(step)


def case_all_end_where_the_first_has_no_more_data():
    with logged("kungfu_tf") as lines:
        values = train(Network(batches_of(BATCHES[kf.rank()], kf.rank()), distributed()))
    assert step_of(values) == 1
    assert_equal(values)
    if kf.is_root():
        [line] = lines
        assert "rank 2" in line and "has no more data" in line and "#no-more-data" in line, line
    expected = sessions.single(1)
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-14)


def case_rank_0_has_the_state():
    """A job of two has trained and left a checkpoint with rank 0. Here three go on."""
    with sessions.own_directory() as directory:
        if kf.is_root():
            program = Path(sessions.__file__)
            command = [sys.executable, "-m", "kungfu_tf.launcher", "-np", "2"]
            command += [sys.executable, str(program), str(directory), "4"]
            environment = training.of_no_job()
            done = subprocess.run(command, env=environment, capture_output=True, timeout=110)
            assert done.returncode == 0, done.stderr.decode()
            kf.ops.save_variable(tf.constant(0), name="trained")
        else:  # longer than a barrier would wait
            kf.ops.request_variable(0, name="trained", shape=[], dtype=tf.int32, timeout=120)
        network = Network(batches_of(3, kf.rank()), distributed())
        with monitored(network, checkpoint_dir=str(directory)) as session:
            start = network.values(session)
            session.run(network.train)
        assert_equal(start)
        if kf.is_root():
            left = np.load(directory / "values.npz").values()
            for value, wanted in zip(start, left, strict=True):
                np.testing.assert_array_equal(value, wanted)
        values = train(network, checkpoint_dir=str(directory))
        assert_equal(values)
        assert step_of(start) == 4 and step_of(values) == 4 + 1 + 3


def case_another_ranks_checkpoint_is_not_read():
    with sessions.own_directory() as directory, sessions.own_directory() as other:
        mine = directory
        if kf.rank() == 1:  # something that was left behind
            (directory / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"')
        network = Network(batches_of(2, kf.rank()), distributed())
        values = train(network, checkpoint_dir=str(mine), summary_dir=str(other))
        assert step_of(values) == 2
        if kf.rank() == 1:
            (directory / "checkpoint").unlink()


def case_rank_0_prints():
    hooks = lambda network: [  # noqa: E731
        v1.train.LoggingTensorHook({"loss": network.loss}, every_n_iter=1),
        v1.train.StepCounterHook(every_n_steps=1),
    ]
    for verbosity in ("root", "all"):
        network = Network(batches_of(3, kf.rank()), distributed())
        os.environ["KUNGFU_VERBOSE"] = verbosity
        try:
            with logged("tensorflow") as lines:
                train(network, *hooks(network))
        finally:
            del os.environ["KUNGFU_VERBOSE"]
        printed = [sum(what in line for line in lines) for what in ("loss = ", "global_step/sec")]
        assert printed == ([3, 2] if kf.is_root() or verbosity == "all" else [0, 0]), lines


def case_a_hook_stops_all():
    def function(run_context, runs):
        if runs == 3 and kf.rank() == 1:
            run_context.request_stop()

    with logged("kungfu_tf") as lines:
        values = train(Network(batches_of(9, kf.rank()), distributed()), Plain(function))
    assert step_of(values) == 3
    assert_equal(values)
    if kf.is_root():
        assert len(lines) == 1 and "rank 1" in lines[0] and "asks to stop" in lines[0], lines


def case_the_smallest_last_step_is_that_of_all():
    hook = v1.train.StopAtStepHook(last_step=7 - kf.rank())
    values = train(Network(batches_of(9, kf.rank()), distributed()), hook)
    assert step_of(values) == 5
    assert_equal(values)


@each(where=["hook", "loop"])
def case_an_error_of_one_peer(where):
    """The others hear which; then all train on."""

    def fail(run_context, runs):
        if runs == 2 and kf.rank() == 1:
            raise OSError("disk full")

    def run():
        network = Network(batches_of(5, kf.rank()), distributed())
        hooks = [Plain(fail)] if where == "hook" else []
        with monitored(network, *hooks) as session:
            for runs in range(1, 6):
                session.run(network.train)
                if where == "loop":
                    fail(None, runs)

    text = raised_by(OSError if kf.rank() == 1 else tf.errors.OpError, run)
    assert "disk full" in text, text
    assert kf.rank() == 1 or "rank 1" in text, text
    values = train(Network(batches_of(2, kf.rank()), distributed()))
    assert step_of(values) == 2
    assert_equal(values)


@each(fails=[True, False])
def case_nan(fails):
    network = Network(batches_of(5, kf.rank()), distributed())
    with network.graph.as_default():
        is_wrong = tf.logical_and(tf.equal(network.steps_before, 2), kf.rank() == 1)
        loss = tf.where(is_wrong, np.float64("nan"), network.loss)
    steps = []
    count = Plain(lambda run_context, runs: steps.append(runs))
    hooks = [count, v1.train.NanTensorHook(loss, fail_on_nan_loss=fails)]
    with logged("kungfu_tf") as lines:
        if fails:
            error = v1.train.NanLossDuringTrainingError
            [line] = [raised_by(error, train, network, *hooks)]
            assert "rank 1" in line and "rank 0" not in line, line
        else:
            train(network, *hooks)
    assert len(set(kf.ops.all_gather(len(steps)).numpy())) == 1 and 2 <= len(steps) <= 4
    if kf.is_root() and not fails:
        assert "rank 1" in lines[0] and "its loss is NaN" in lines[0], lines


def case_who_leaves_is_missed_by_nobody():
    network = Network(batches_of(9, kf.rank()), distributed())
    with monitored(network) as session:
        for _ in range([5, 3, 4][kf.rank()]):
            session.run(network.train)
            values = network.values(session)
    assert step_of(values) == 3
    assert_equal(values)


def case_runs_that_do_not_train_are_one_peers_own():
    network = Network(batches_of(4, kf.rank()), distributed())
    with network.graph.as_default():
        once = v1.data.make_one_shot_iterator(tf.data.Dataset.range(1)).get_next()
    with monitored(network) as session:
        session.run(network.train)
        if kf.rank() == 1:
            assert session.run([network.step, {"once": once}])[1]["once"] == 0
            raised_by(tf.errors.OutOfRangeError, session.run, once)
        session.run(network.train)
        values = network.values(session)
    assert step_of(values) == 2
    assert_equal(values)


def case_nobody_tires_of_a_long_hook():
    """However long one takes on rank 0: the others are told again and again that it is busy."""
    met, pulse = ending_agreement._meet, ending_agreement.PULSE
    several, count = threading.Event(), []

    def meet(answer):
        count.append(answer)
        if count.count(ending_agreement._BUSY) >= 3:
            several.set()
        return met(answer)

    def evaluate(run_context, runs):
        if runs == 2 and kf.is_root():
            assert several.wait(60)

    ending_agreement._meet, ending_agreement.PULSE = meet, 0.01
    try:
        values = train(Network(batches_of(3, kf.rank()), distributed()), Plain(evaluate))
    finally:
        ending_agreement._meet, ending_agreement.PULSE = met, pulse
    assert step_of(values) == 3
    assert_equal(values)
    assert several.is_set() or not kf.is_root()
    assert len(count) >= 3 + 5 and kf.ops.consensus(np.array([len(count)]))


def case_an_epoch_that_is_interrupted_while_others_wait_for_the_next():
    """They go over all the same."""

    def tell():
        while libraries.statistics()["pending"] == 0:
            time.sleep(0.01)
        kf.ops.save_variable(tf.constant(0), name="waits")

    if kf.rank() == 0:
        threading.Thread(target=tell, daemon=True).start()
    elif kf.rank() == 1:
        kf.ops.request_variable(0, name="waits", shape=[], dtype=tf.int32)
        peer.interrupt(tf.errors.OUT_OF_RANGE, "not all peers go on")
    peer.begin_epoch()
    assert kf.ops.consensus(np.array([kf.membership_version()]))


class Drifting(Algorithm):
    """Each peer adds its rank to the mean."""

    def gradients(self, gradients, variables, *, step=None):
        means = kf.ops.group_all_reduce(gradients, op="mean", name=f"{self.name}/drifting")
        return [mean + kf.rank() for mean in means]


def case_a_method_that_lets_models_differ_is_not_checked():
    optimizer = wrap(v1.train.GradientDescentOptimizer(0.01), Drifting)
    values = train(Network(batches_of(2, kf.rank()), optimizer))
    assert step_of(values) == 2
    assert not kf.ops.consensus(np.array([training.digest(values)]))


@each(own=["nothing", "of the batch", "of the step", "both"])
@exhaustive(own=["nothing", "both"])
def case_a_plain_session(own):
    """It starts equal by itself; each epoch ends for all where the first has no more data.

    However many collectives of the program's own a step has: none is in the others' way.
    """
    network = Network(batches_of([3, 2, 4][kf.rank()], kf.rank()), distributed())
    fetches = [network.train]
    with network.graph.as_default(), v1.Session() as session:
        if own in ("of the batch", "both"):
            fetches.append(kf.ops.all_reduce(network.loss, op="mean", name="loss"))
        if own in ("of the step", "both"):
            fetches.append(kf.ops.all_reduce(network.steps_before, name="step"))
        kf.ops.broadcast(tf.constant(0.1))  # of something else
        session.run(v1.global_variables_initializer())
        network.graph.finalize()
        for _ in range(4):
            session.run(network.iterator.initializer)
            with logged("kungfu_tf") as lines:
                while True:
                    try:
                        session.run(fetches)
                    except tf.errors.OutOfRangeError as error:
                        end = str(error)
                        break
            assert kf.rank() == 1 or ("rank 1" in end and "no more data" in end), end
            assert len(lines) == (1 if kf.is_root() else 0)
        values = network.values(session)
    assert step_of(values) == 8
    assert_equal(values)


def case_an_error_in_a_step_of_a_plain_session():
    """All hear of it, and can go on."""
    network = Network(batches_of(3, kf.rank()), distributed())
    with network.graph.as_default(), v1.Session() as session:
        is_wrong = tf.logical_and(tf.equal(network.steps_before, 1), kf.rank() == 1)
        loss = tf.where(is_wrong, np.float64("nan"), network.loss)
        check = tf.debugging.check_numerics(loss, "the loss is odd")
        with tf.control_dependencies([check]):  # the others cannot have ended the step before
            step = kf.ops.all_reduce(network.steps_before, name="step")
        fetches = [network.train, step]
        session.run([v1.global_variables_initializer(), network.iterator.initializer])
        session.run(fetches)
        text = raised_by(tf.errors.InvalidArgumentError, session.run, fetches)
        assert "the loss is odd" in text and ("rank 1" in text or kf.rank() == 1), text
        session.run([v1.global_variables_initializer(), network.iterator.initializer])
        session.run(fetches)


def case_variables_that_are_initialised_late():
    """What was to make the peers equal has failed, and is made up for."""
    network = Network(batches_of(2, kf.rank()), distributed())
    with network.graph.as_default(), v1.Session() as session:
        session.run(network.iterator.initializer)
        raised_by(tf.errors.FailedPreconditionError, session.run, network.train)
        session.run(v1.global_variables_initializer())
        session.run(network.train)
        values = network.values(session)
    assert_equal(values)


def case_two_batches_in_a_step():
    """Two optimizers, each with data of its own: who leaves the session is missed by nobody."""
    network = Network(batches_of(9, kf.rank()), distributed())
    with network.graph.as_default():
        numbers = tf.data.Dataset.from_tensor_slices(np.arange(9.0) + kf.rank())
        other = v1.get_variable("other", [1], tf.float64)
        number = v1.data.make_one_shot_iterator(numbers).get_next()
        both = [network.train, distributed().minimize(tf.square(other - number), var_list=[other])]
    with monitored(network) as session:
        for _ in range([5, 3, 4][kf.rank()]):
            session.run(both)
            values = network.values(session)
    assert step_of(values) == 3
    assert_equal(values)


def case_each_session_of_a_graph_starts_equal():
    network = Network(batches_of(1, kf.rank()), distributed())
    for _ in range(2):
        with v1.Session(graph=network.graph) as session:
            with network.graph.as_default():
                initialize = [v1.global_variables_initializer(), network.iterator.initializer]
            session.run(initialize)
            session.run(network.train)
            values = network.values(session)
        assert_equal(values)


def case_a_hook_that_is_used_again():
    """Where models may differ, after a graph where they may not."""
    hook = kf.initializer.BroadcastGlobalVariablesHook()
    assert_equal(train(Network(batches_of(2, kf.rank()), distributed()), hook))
    optimizer = wrap(v1.train.GradientDescentOptimizer(0.01), Drifting)
    assert step_of(train(Network(batches_of(2, kf.rank()), optimizer), hook)) == 2


def case_a_session_without_us():
    """A peer's own affair: files, steps, state."""
    network = Network(batches_of(3, kf.rank()), v1.train.MomentumOptimizer(0.02, 0.9))
    if kf.rank() == 1:
        with tempfile.TemporaryDirectory() as directory:
            values = train(network, checkpoint_dir=directory)
            assert list(Path(directory).glob("*.meta"))
        assert step_of(values) == 3
