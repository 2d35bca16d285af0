"""`kungfu-run -verify` of sessions: what is fed is verified, and others are said not to be."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import sessions
import tensorflow as tf
import training
from harness import each
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 2, "env": {"KUNGFU_VERIFY": "3"}}]
TIMEOUT = 240
NEEDS_KERAS = False

v1 = tf.compat.v1
STEPS = 4
LOSSES = {
    "sum": lambda off: tf.reduce_sum(off**2),
    "contrasts": lambda off: tf.reduce_mean(off**2) + tf.reduce_mean((off - off[0]) ** 2),
    "mask": lambda off: tf.reduce_sum(tf.nn.relu(off)) / (1 + tf.reduce_sum(tf.sign(off) + 1)),
}


class Fed:
    """A small graph whose batches are fed."""

    def __init__(self, what=""):
        with tf.Graph().as_default() as self.graph:
            v1.set_random_seed(kf.rank())
            self.x = v1.placeholder(tf.float32, [None, training.FEATURES])
            self.y = v1.placeholder(tf.float32, [None, 1])
            weights = v1.get_variable("weights", [training.FEATURES, 1])
            table = v1.get_variable("table", [3, 1])
            rows = tf.nn.embedding_lookup(table, tf.cast(self.x[:, 0] > 0, tf.int32))
            off = self.x @ weights + rows - self.y
            if what == "dropped" and kf.rank():
                off *= 0
            loss_of = LOSSES.get(what) or (lambda off: tf.reduce_mean(off**2))
            self.loss = loss_of(off)
            if what == "random":
                self.loss *= tf.random.uniform([])
            optimizer = SynchronousSGDOptimizer(v1.train.AdamOptimizer(0.01 * kf.size()))
            step = v1.train.get_or_create_global_step()
            gradients, variables = zip(*optimizer.compute_gradients(self.loss), strict=True)
            gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
            pairs = list(zip(gradients, variables, strict=True))
            self.train = optimizer.apply_gradients(pairs, step)
            if what == "rank 1 more":
                with tf.control_dependencies([self.train]):
                    self.train = weights.assign_add(0.1 * kf.rank() * tf.ones_like(weights)).op

    def steps(self, session, rows=4, first=None):
        """Trains; returns what rank 0 is told."""
        x, y = (part.astype(np.float32) for part in training.samples(2 * rows * STEPS))
        if first is None:
            x, y = x[kf.rank() :: 2], y[kf.rank() :: 2]
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            for i in range(STEPS):
                part = slice(rows * i + (first or 0), rows * (i + 1) + (first or 0))
                session.run([self.train, self.loss], {self.x: x[part], self.y: y[part]})
        return said.getvalue()


@contextlib.contextmanager
def session_of(network, kind="plain"):
    with network.graph.as_default():
        if kind == "monitored":
            with v1.train.MonitoredTrainingSession() as session:
                yield session
            return
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            yield session


def weights_of(network, session):
    with network.graph.as_default():
        return session.run(v1.global_variables())


VERIFIED = (
    "kungfu_tf: -verify: verified: 3 steps of the session on 2 peers are those of a single process "
    "with their samples\n"
)


@each(kind=["plain", "monitored"])
def case_a_right_program(kind):
    network = Fed()
    with session_of(network, kind) as session:
        said = network.steps(session)
    assert said == (VERIFIED if kf.is_root() else ""), said


def case_random_numbers_cannot_be():
    network = Fed("random")
    with session_of(network) as session:
        said = network.steps(session)
    assert not kf.is_root() or "gives another result each time" in said, said


def case_batches_that_the_graph_reads():
    network = sessions.Network(sessions.batches_of(4, kf.rank()), sessions.distributed())
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        sessions.train(network)
    expected = "but that its 6 variables are equal on all peers: the batches are read by the graph"
    assert not kf.is_root() or expected in said.getvalue(), said.getvalue()


@each(what=["sum", "contrasts", "mask", "dropped", "same", "shifted"])
def case_a_wrong_program(what):
    network = Fed(what)
    first = {"same": 0, "shifted": kf.rank()}.get(what)
    with session_of(network) as session:
        before = weights_of(network, session)
        steps = lambda: network.steps(session, first=first)  # noqa: E731
        text = raised_by(kf.errors.VerificationError, steps)
        after = weights_of(network, session)
    assert text.startswith("step 1 of the session on 2 peers is not that of a single proc"), text
    assert ("as that of a sum over samples" in text) == (what == "sum"), text
    assert ("train on the same samples" in text) == (what in ("same", "shifted")), text
    assert len(before) == len(after)


def case_updates_that_differ_between_peers():
    network = Fed("rank 1 more")
    with session_of(network) as session:
        text = raised_by(kf.errors.DivergenceError, lambda: network.steps(session))
    assert "after step 1 of the session" in text, text
