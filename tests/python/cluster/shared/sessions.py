"""Trains in sessions of TF1: a small network, in a MonitoredTrainingSession.

As a program for `kungfu-run` it trains for as many steps as it is told, with checkpoints in the
folder that it is given, which only rank 0 may use.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import training

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

v1 = tf.compat.v1

BATCH = 4


class Network:
    """In a graph of its own: a loss, and the operation that trains on it.

    Args:
        batches: What this peer trains on, pairs of x and y.
        optimizer: Of `tf.compat.v1.train`.
        seed: Of the initial weights; every peer has its own unless told otherwise.
    """

    def __init__(self, batches: Sequence[Any], optimizer: Any, seed: int | None = None) -> None:
        with tf.Graph().as_default() as self.graph:
            v1.set_random_seed(7)
            signature = tuple(
                tf.TensorSpec([None, columns], tf.float64) for columns in (training.FEATURES, 1)
            )
            dataset = tf.data.Dataset.from_generator(
                lambda: iter(batches), output_signature=signature
            )
            self.iterator = v1.data.make_initializable_iterator(dataset)
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, self.iterator.initializer)
            self.x, y = self.iterator.get_next()
            seed = kf.rank() if seed is None else seed
            self.loss = training.v1_loss(self.x, y, use_resource=True, seed=seed)
            self.step = v1.train.get_or_create_global_step()
            self.steps_before = self.step.read_value()
            with tf.control_dependencies([self.steps_before]):  # read first, whatever runs when
                self.train = optimizer.minimize(self.loss, self.step)
            v1.summary.scalar("loss", self.loss)

    def values(self, session: Any) -> list[Any]:
        """The weights and the state of the optimizer, in a session that may be monitored."""
        with self.graph.as_default():
            variables = v1.global_variables()
        if hasattr(session, "run_step_fn"):
            return session.run_step_fn(lambda step_context: step_context.session.run(variables))
        return session.run(variables)


def distributed() -> Any:
    return SynchronousSGDOptimizer(v1.train.MomentumOptimizer(0.02, 0.9))


def batches_of(count: int, rank: int, size: int = BATCH) -> list[Any]:
    """Those of a peer."""
    x, y = training.samples(1000)
    rows = [np.arange(i * size, (i + 1) * size) + 100 * rank for i in range(count)]
    return [(x[r], y[r]) for r in rows]


@contextlib.contextmanager
def monitored(network: Network, *hooks: Any, **options: Any) -> Iterator[Any]:
    """A session of the network."""
    with (
        network.graph.as_default(),
        v1.train.MonitoredTrainingSession(hooks=list(hooks), **options) as session,
    ):
        yield session


def train(network: Network, *hooks: Any, **options: Any) -> list[Any]:
    """Trains until the session has to stop; returns the values, which all peers must have."""
    values: list[Any] = []
    with monitored(network, *hooks, **options) as session:
        while not session.should_stop():
            session.run(network.train)
            values = network.values(session)
    return values


def single(count: int) -> list[Any]:
    """The values of one process that has trained on so many batches of all peers."""
    steps = zip(*(batches_of(count, rank) for rank in range(kf.size())), strict=True)
    batches = [tuple(map(np.concatenate, zip(*step, strict=True))) for step in steps]
    network = Network(batches, v1.train.MomentumOptimizer(0.02, 0.9), seed=0)
    with network.graph.as_default(), v1.Session() as session:
        session.run([v1.global_variables_initializer(), network.iterator.initializer])
        for _ in batches:
            session.run(network.train)
        return network.values(session)


def assert_equal(values: Sequence[Any]) -> None:
    """On all peers, bitwise."""
    assert kf.ops.consensus(np.array([training.digest(values)]))


@contextlib.contextmanager
def own_directory() -> Iterator[Path]:
    """A folder of this peer, which stays empty but on rank 0."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
        files = [path.name for path in Path(name).rglob("*")]
        assert bool(files) == (kf.rank() == 0), files


def main(directory: str, steps: int) -> None:
    network = Network(batches_of(steps, kf.rank()), distributed())
    with tempfile.TemporaryDirectory() as own:
        mine = directory if kf.is_root() else own
        values = train(network, checkpoint_dir=mine)
        if kf.is_root():
            np.savez(Path(directory) / "values.npz", *values)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
