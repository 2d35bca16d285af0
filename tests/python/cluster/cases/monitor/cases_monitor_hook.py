"""What MonitorHook shows of a session, and Monitor of a loop with a tape."""

from __future__ import annotations

import contextlib
import math
import tempfile

import numpy as np
import tensorflow as tf
from monitors import ask, steps_in
from sessions import BATCH, Network, batches_of, monitored

import kungfu_tf as kf

JOBS = [{"np": 2}]
NEEDS_KERAS = False

v1 = tf.compat.v1
STEPS = 7
EACH_TWICE = [step for step in range(1, STEPS + 1) for _ in range(2)]


class Ask(v1.train.SessionRunHook):
    """Asks as Prometheus does, after each run."""

    def __init__(self, monitor):
        self.monitor, self.answers = monitor, []

    def after_run(self, run_context, run_values):
        self.answers.append(ask(self.monitor.port, "secret"))


def trained(directory, log_dir):
    """Trains for some steps, from where rank 0's checkpoint is; between them are other runs.

    Returns:
        What Prometheus was told after each run, and the noise scale at the end.
    """
    optimizer = kf.optimizers.MonitorGradientNoiseScaleOptimizer(
        v1.train.MomentumOptimizer(0.02, 0.9), BATCH
    )
    network = Network(batches_of(STEPS, kf.rank()), optimizer)
    hook = kf.hooks.MonitorHook(
        every_steps=3, log_dir=log_dir, port=0, token="secret", latencies=True
    )
    with network.graph.as_default():
        keys = kf.variables.GraphKeys
        scale = kf.variables.get_global_variable(keys.GRADIENT_NOISE_SCALE)
    asks, last = Ask(hook), v1.train.FinalOpsHook(scale)
    with monitored(network, hook, asks, last, checkpoint_dir=directory) as session:
        while not session.should_stop():
            session.run(network.train)
            session.run(network.step)
    assert hook.port is None
    return asks.answers, last.final_ops_values


def counts_of(answers):
    return [answer["kungfu_step_seconds_count"] for answer in answers]


def case_a_session():
    """The second goes on at the step where the first has ended."""
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as log_dir:
        answers, noise_scale = trained(directory, log_dir)
        assert counts_of(answers) == EACH_TWICE
        newest = answers[-1]
        assert newest["kungfu_step_seconds_sum"] > 0
        assert math.isclose(newest["kungfu_noise_scale"], noise_scale, rel_tol=1e-6)
        other = kf.peer.name_of(1 - kf.rank())
        assert newest[f'egress_total_bytes{{peer="{other}",way="shared_memory"}}'] > 0
        assert 0 < newest[f'kungfu_peer_latency_seconds{{peer="{other}"}}'] < math.inf
        answers, _ = trained(directory, log_dir)
        assert counts_of(answers) == EACH_TWICE
        written = steps_in(log_dir)
    assert written["noise_scale"] == list(range(1, 2 * STEPS + 1)), written
    for name in ("step_time", "egress_rate", "ingress_rate", "peer_latency"):
        assert written[name] == [3, 6, 10, 13], (name, written)


def case_a_session_that_ends_with_an_error():
    """TensorFlow does not tell hooks, and nobody answers any more."""
    network = Network(
        batches_of(STEPS, kf.rank()),
        kf.optimizers.SynchronousSGDOptimizer(v1.train.MomentumOptimizer(0.02, 0.9)),
    )
    hook = kf.hooks.MonitorHook(port=0)
    with contextlib.suppress(ZeroDivisionError), monitored(network, hook) as session:
        session.run(network.train)
        assert hook.port is not None
        raise ZeroDivisionError
    assert hook.port is None


def case_a_loop_with_a_tape():
    variable = tf.Variable(np.ones(5))
    optimizer = kf.optimizers.MonitorGradientVarianceOptimizer(tf.keras.optimizers.SGD(0.1))
    with tempfile.TemporaryDirectory() as log_dir:
        monitor = kf.Monitor(optimizer=optimizer, log_dir=log_dir, port=0)
        with monitor:
            for _ in range(4):
                with monitor.step(), tf.GradientTape() as tape:
                    loss = tf.reduce_sum(variable * (1.0 + kf.rank()))
                    optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])
                if monitor.steps % 2 == 0:
                    values = monitor.end_interval()
            answer = ask(monitor.port)
        written = steps_in(log_dir)
    assert monitor.port is None
    assert answer["kungfu_step_seconds_count"] == 4
    # Of the gradients 1 and 2: the mean of the squares less the square of the mean, 5 times.
    assert math.isclose(answer["kungfu_gradient_variance"], 5 * 0.25, rel_tol=1e-6)
    assert values["step_time"] > 0 and values["egress_rate"] > 0, values
    assert written["gradient_variance"] == [1, 2, 3, 4] and written["step_time"] == [2, 4]
