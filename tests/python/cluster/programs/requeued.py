"""Trains by fit with backups. In its third epoch Slurm requeues the job.

In its folder it writes the number of new starts, and the epochs of the last one, to <rank>.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import fits

import kungfu_tf as kf
from kungfu_tf import config


class Requeue(fits.keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[int] = []

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        self.epochs.append(epoch)
        if epoch == 2 and config.RESTARTS.get() == 0:
            if kf.rank() == 0:
                subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True)
            time.sleep(600)  # Slurm ends it


def main() -> None:
    model = fits.model_of(fits.distributed())
    x, y = fits.mine(fits.samples(96))
    backup = fits.keras.callbacks.BackupAndRestore("backup")
    requeue = Requeue()
    model.fit(x, y, batch_size=8, epochs=4, verbose=0, callbacks=[backup, requeue])
    Path(str(kf.rank())).write_text(f"{config.RESTARTS.get()} {requeue.epochs}\n")


if __name__ == "__main__":
    main()
