"""Trainings that lose a peer each. The survivors compare their weights with those of one process.

survivors.py FOLDER METHOD [[RANK,]RANK:PHASE[:notice|cut]...], or torn, or last, or FOLDER end,
or FOLDER resume STEPS. Each peer knows the data of all others, so it
can repeat alone what the peers that were there in each step have done together.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from faults import (
    BATCH,
    EPOCHS,
    ME,
    STEPS,
    Fault,
    Injector,
    data_of,
    keras,
    model_of,
    terminate_runner,
    until,
)
from references import alone, those_there

import kungfu_tf as kf
from kungfu_tf import context


def train(folder: Path, peers: list[int], fault: Fault) -> None:
    injector = Injector(fault)
    model = model_of(injector)
    x, y = data_of(ME)
    writers = [
        keras.callbacks.ModelCheckpoint(str(folder / f"{fault.who}-{{epoch}}.keras")),
        keras.callbacks.CSVLogger(str(folder / f"{fault.who}.csv")),
        keras.callbacks.TensorBoard(
            str(folder / f"{fault.who}-board"), update_freq=1, write_steps_per_second=True
        ),
        keras.callbacks.BackupAndRestore(str(folder / f"{fault.who}-backup")),
    ]
    try:
        model.fit(
            *(x, y, BATCH, EPOCHS),
            verbose=2,
            shuffle=False,
            callbacks=[*writers, injector],
            validation_data=(x, y),
        )
    except SystemExit as end:
        assert kf.detached()
        steps = int(model.optimizer.iterations.numpy())
        print("left", fault.phase, "after", steps, "steps, code", end.code, flush=True)
        raise
    check_weights(model.get_weights(), peers, fault)
    if fault.kind != "cut":
        peers[:] = [p for p in peers if p not in (fault.who, fault.before)]
    assert kf.size() == len(peers), (kf.size(), peers)
    assert kf.rank() == peers.index(ME)
    # After the end of `fit` there may be no batch with which it hears of it.
    assert injector.heard >= 1 or fault.phase == "fit end", injector.heard
    assert injector.heard <= (1 if fault.before is None else 2), injector.heard
    assert int(model.optimizer.iterations.numpy()) == EPOCHS * STEPS
    if kf.is_root():
        check_files(folder, fault)
    print("survived", fault.phase, flush=True)


def check_weights(weights: list[Any], peers: list[int], fault: Fault) -> None:
    """They are those of one process on the samples of the peers that were there; everywhere."""
    assert all(kf.ops.consensus(w, name=f"weights/{i}") for i, w in enumerate(weights))
    off = []
    ways = list(itertools.product(fault.first_without, fault.has_sent))
    for first_without, has_sent in ways:
        expected = alone(peers, fault, first_without, has_sent=has_sent)
        pairs = zip(weights, expected, strict=True)
        off.append(max(np.linalg.norm(w - e) / max(1e-12, np.linalg.norm(e)) for w, e in pairs))
    assert min(off) < 1e-12, off
    # Steps that a peer makes between its last meeting and its end change nobody's weights.
    first = {first for (first, _), one in zip(ways, off, strict=True) if one < 1e-12}
    print("without it from step", " or ".join(map(str, sorted(first))), flush=True)


def check_files(folder: Path, fault: Fault) -> None:
    """Those of each epoch are there once, whichever peer was rank 0 then.

    What rank 0 was about to write when it died is in none.
    """
    who = fault.who
    first = 1 if who == 0 and fault.phase == "checkpoint" else 0
    epochs = [*range(first, EPOCHS)]
    assert len(list(folder.glob(f"{who}-*.keras"))) == len(epochs)
    rows = (folder / f"{who}.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["epoch", *map(str, epochs)], rows
    events = [
        event
        for path in (folder / f"{who}-board" / "train").glob("events.*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
    ]
    steps = [e.step for e in events for v in e.summary.value if v.tag == "epoch_loss"]
    assert sorted(steps) == epochs, steps
    if hasattr(keras, "Variable"):  # Keras 2 cannot back up from the middle on
        assert not (folder / f"{who}-backup").exists()


def torn() -> None:
    """An update of 18 variables is made as a whole, or not at all, where a peer dies amid it."""
    injector = Injector(Fault(1, "backward"))
    model = model_of(injector, hidden=8)
    before: list[Any] = []

    def show() -> None:
        after = model.get_weights()
        changed = sum(np.any(a != b) for a, b in zip(after, before, strict=True))
        print("changed", changed, "of", len(after), "in step", injector.step, flush=True)

    class Compare(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            before[:] = model.get_weights()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if injector.step == injector.fault.number:
                show()

    try:
        model.fit(*data_of(ME), BATCH, EPOCHS, verbose=0, callbacks=[injector, Compare()])
    except tf.errors.OpError:
        show()
        raise


def last() -> None:
    """The other peer dies amid an exchange, of which this one begins the rest when it is alone."""

    class HoldsBack(Injector):
        def at(self, phase: str, number: int) -> None:
            super().at(phase, number)
            if (ME, phase, number) == (0, "backward", self.fault.number):
                until(lambda: kf.size() == 1)

    injector = HoldsBack(Fault(1, "bucket"))  # which this one has begun, too
    model = model_of(injector)
    model.fit(*data_of(ME), BATCH, EPOCHS, verbose=0, shuffle=False, callbacks=[injector])
    check_weights(model.get_weights(), [0, 1], injector.fault)


def end_together(folder: Path, fault: Fault) -> None:
    """SIGTERM to the runner: all end after the same step, with a backup."""
    model = model_of(Injector(fault))

    class Terminate(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if kf.is_root() and int(model.optimizer.iterations.numpy()) == STEPS + 1:
                terminate_runner()

    try:
        train_with_backup(model, folder, Terminate())
    except SystemExit as end:
        steps = int(model.optimizer.iterations.numpy())
        print("ended after", steps, "steps, code", end.code, flush=True)
        raise


def resume(folder: Path, fault: Fault, steps: int) -> None:
    """Rank 0 begins with the weights of the backup, in its epoch."""
    model = model_of(Injector(fault))
    expected, peers = model_of(None), [*range(kf.size())]
    with context.within(is_alone=True):
        for batches in itertools.islice(those_there(peers, fault, 0), steps):
            expected.train_on_batch(*map(np.concatenate, zip(*batches.values(), strict=True)))

    class Compare(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if kf.is_root() and epoch == steps // STEPS:
                pairs = zip(model.get_weights(), expected.get_weights(), strict=True)
                off = max(np.linalg.norm(w - e) / np.linalg.norm(e) for w, e in pairs)
                assert off < 1e-12, off
                print("resumed epoch", epoch + 1, "after", steps, "steps", flush=True)

    history = train_with_backup(model, folder, Compare())
    assert history.epoch == [*range(steps // STEPS, EPOCHS)], history.epoch


def train_with_backup(model: Any, folder: Path, callback: Any) -> Any:
    backup = keras.callbacks.BackupAndRestore(str(folder / "backup"))
    callbacks = [backup, callback]
    return model.fit(*data_of(ME), BATCH, EPOCHS, verbose=0, shuffle=False, callbacks=callbacks)


def main() -> None:
    if sys.argv[1] == "torn":
        return torn()
    if sys.argv[1] == "last":
        return last()
    folder = Path(sys.argv[1])
    if sys.argv[2] == "end":
        return end_together(folder, Fault(-1, "traced"))
    if sys.argv[2] == "resume":
        return resume(folder, Fault(-1, "traced"), int(sys.argv[3]))
    peers = [*range(kf.size())]
    for text in sys.argv[3:]:
        ranks, phase, *kind = text.split(":")
        *before, who = map(int, ranks.split(","))
        fault = Fault(who, phase, sys.argv[2], *kind)
        train(folder, peers, dataclasses.replace(fault, before=before[0] if before else None))


if __name__ == "__main__":
    main()
