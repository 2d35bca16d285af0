"""Trains by fit with backups, under kungfu-run on four nodes of Slurm.

In its second epoch rank 3 is killed, and in its third one Slurm sends SIGTERM to all. Each peer
that ends together with all others writes a digest of its weights to left-<rank>. After the new
start each writes to <rank>: the number of new starts, of peers, and the epochs. Rank 0 writes the
digest of the weights with which it began, too. The others get them in the first step.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import fits
import training
from faults import until_noticed

import kungfu_tf as kf
from kungfu_tf import config

TERMINATED = 128 + signal.SIGTERM


class Faults(fits.keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[int] = []
        self.began = ""

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        if kf.is_root() and not self.epochs:
            self.began = str(training.digest(self.model.get_weights()))
        self.epochs.append(epoch)

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        if config.RESTARTS.get() > 0:
            return
        if (self.epochs[-1], batch, kf.rank()) == (1, 1, 3):
            os.kill(os.getpid(), signal.SIGKILL)
        if (self.epochs[-1], batch, kf.rank()) == (2, 0, 0):
            # As by --signal=TERM. scancel may be ended by it, too. Others may have begun the second
            # of the epoch's three steps: then all end after that one.
            subprocess.run(["scancel", "--signal=TERM", os.environ["SLURM_JOB_ID"]], check=False)
            until_noticed("_is_told")


def main() -> None:
    model = fits.model_of(fits.distributed())
    x, y = fits.mine(fits.samples(96))
    backup, faults = fits.keras.callbacks.BackupAndRestore("backup"), Faults()
    try:
        model.fit(x, y, batch_size=8, epochs=4, verbose=0, callbacks=[backup, faults])
    except SystemExit as end:
        if end.code == TERMINATED:
            Path(f"left-{kf.rank()}").write_text(str(training.digest(model.get_weights())))
        raise
    told = config.RESTARTS.get(), kf.size(), faults.epochs, faults.began
    Path(str(kf.rank())).write_text(f"{told}\n")


if __name__ == "__main__":
    main()
