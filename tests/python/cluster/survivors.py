"""Trainings that lose a peer each. The survivors compare their weights with those of one process.

A fault is injected where it is said: rank, step and phase. Each peer knows the data of all others,
so it can repeat alone what the peers that were there in each step have done together.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import context

keras = tf.keras
keras.backend.set_floatx("float64")
ME = kf.rank()  # a peer keeps its data when its rank changes
SAMPLES, BATCH, EPOCHS, STEPS = 32, 8, 2, 4


@dataclasses.dataclass(frozen=True)
class Fault:
    """The peer that is lost, by its first rank, and where.

    Attributes:
        who: The peer.
        step: The step in the training, from 0, or the epoch.
        phase: "begin", "backward", "end" of a step; "validation", "epoch end".
        first_without: The first step that is made without it.
    """

    who: int
    step: int
    phase: str
    first_without: int


FAULTS = [
    Fault(3, 2, "backward", 2),
    Fault(0, 0, "epoch end", STEPS),
    Fault(1, 1, "validation", EPOCHS * STEPS),
]


class Injector(keras.callbacks.Callback):
    """Kills this process at its fault. Counts what it hears."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault, self.step, self.epoch, self.heard = fault, -1, 0, 0

    def at(self, phase: str, number: int) -> None:
        if (ME, number, phase) == (self.fault.who, self.fault.step, self.fault.phase):
            print("injected", self.fault, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.step += 1
        self.at("begin", self.step)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.at("end", self.step)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.at("validation", self.epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.at("epoch end", epoch)

    def on_membership_change(self) -> None:
        self.heard += 1


def data_of(peer: int) -> tuple[Any, Any]:
    x = np.random.default_rng(peer).normal(size=(SAMPLES, 6))
    return x, x.sum(axis=1, keepdims=True)


def model_of(injector: Injector | None) -> Any:
    """Its backward pass may be trapped between the buckets of later and of earlier layers."""

    @tf.custom_gradient
    def trapped(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            if injector is None:
                return upstream

            def look() -> Any:
                injector.at("backward", injector.step)
                return np.int64(0)

            with tf.control_dependencies([upstream]):
                looked = tf.numpy_function(look, [], tf.int64)
            with tf.control_dependencies([looked]):
                return tf.identity(upstream)

        return tf.identity(x), gradient

    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(8, activation="tanh") for _ in range(3)]
    trap = keras.layers.Lambda(trapped)
    model = keras.Sequential(
        [keras.Input([6]), layers[0], trap, *layers[1:], keras.layers.Dense(1)]
    )
    plain = keras.optimizers.SGD(0.05, momentum=0.9)
    wrapped = kf.optimizers.SynchronousSGDOptimizer(plain, bucket_bytes=200)
    model.compile(plain if injector is None else wrapped, "mse", metrics=["mae"])
    return model


def alone(peers: list[int], fault: Fault) -> list[Any]:
    """The weights after a training by one process, on the batches of those that were there."""
    model = model_of(None)
    data = {peer: data_of(peer) for peer in peers}
    with context.within(is_alone=True):
        for step in range(EPOCHS * STEPS):
            there = [p for p in peers if p != fault.who or step < fault.first_without]
            rows = slice(step % STEPS * BATCH, (step % STEPS + 1) * BATCH)
            x, y = (np.concatenate([data[p][i][rows] for p in there]) for i in (0, 1))
            model.train_on_batch(x, y)
    return model.get_weights()


def main(folder: Path) -> None:
    peers = [0, 1, 2, 3]
    for fault in FAULTS:
        injector = Injector(fault)
        model = model_of(injector)
        x, y = data_of(ME)
        writers = [
            keras.callbacks.ModelCheckpoint(str(folder / f"{fault.who}-{{epoch}}.keras")),
            keras.callbacks.CSVLogger(str(folder / f"{fault.who}.csv")),
            keras.callbacks.TensorBoard(str(folder / f"{fault.who}-board")),
            keras.callbacks.BackupAndRestore(str(folder / f"{fault.who}-backup")),
        ]
        model.fit(
            *(x, y, BATCH, EPOCHS),
            verbose=2,
            shuffle=False,
            callbacks=[*writers, injector],
            validation_data=(x, y),
        )
        for mine, expected in zip(model.get_weights(), alone(peers, fault), strict=True):
            error = np.linalg.norm(mine - expected) / max(1e-12, np.linalg.norm(expected))
            assert error < 1e-12, error
        peers.remove(fault.who)
        assert kf.size() == len(peers), (kf.size(), peers)
        assert kf.rank() == peers.index(ME)
        assert injector.heard == 1, injector.heard
        assert int(model.optimizer.iterations.numpy()) == EPOCHS * STEPS
        if kf.is_root():
            check_files(folder, fault.who)
        print("survived", fault.phase, flush=True)


def check_files(folder: Path, who: int) -> None:
    """Those of each epoch are there once, whichever peer was rank 0 then."""
    assert len(list(folder.glob(f"{who}-*.keras"))) == EPOCHS
    rows = (folder / f"{who}.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["epoch", *map(str, range(EPOCHS))], rows
    events = [
        event
        for path in (folder / f"{who}-board" / "train").glob("events.*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
    ]
    steps = [e.step for e in events for v in e.summary.value if v.tag == "epoch_loss"]
    assert sorted(steps) == [*range(EPOCHS)], steps
    if hasattr(keras, "Variable"):  # Keras 2 cannot back up from the middle on
        assert not (folder / f"{who}-backup").exists()


def torn() -> None:
    """Without survivors an update is made as a whole, or not at all."""
    injector = Injector(Fault(1, 2, "backward", 2))
    model = model_of(injector)
    before: list[Any] = []

    class Keep(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            before[:] = model.get_weights()

    try:
        model.fit(*data_of(ME), BATCH, EPOCHS, verbose=0, callbacks=[Keep(), injector])
    except tf.errors.OpError:
        after = model.get_weights()
        changed = sum(np.any(a != b) for a, b in zip(after, before, strict=True))
        print("changed", changed, "of", len(after), "in step", injector.step, flush=True)
        raise


if __name__ == "__main__":
    torn() if sys.argv[1] == "torn" else main(Path(sys.argv[1]))
