"""A backup of `BackupAndRestore` at a step at which it would make none."""

from __future__ import annotations

from typing import Any

from kungfu_tf.upstream import generations


def back_up(callback: Any, model: Any, epoch: int, batches: int, *, knows_place: bool) -> None:
    """Makes a backup that begins the epoch anew, with the weights of now.

    Args:
        callback: The `BackupAndRestore`. It may not have worked before: rank 0 was lost.
        model: The model.
        epoch: The epoch under way.
        batches: How many of its batches are done.
        knows_place: Whether another file has the place in the data (`keras/elastic/backup.py`).
    """
    if generations.package_of(model).generation == 3:
        callback.set_model(model)
        callback._current_epoch, callback._last_batch_seen = epoch, batches
        callback._save_model()
        return
    state = getattr(callback, "_training_state", None)
    if state is None:  # Keras 2 cannot back up from the middle on
        return
    if not knows_place and callback.save_freq == "epoch":
        state._ckpt_saved_epoch.assign(epoch - 1)  # the epoch that is done
    elif not knows_place:
        state._ckpt_saved_batch.assign(batches - 1)  # the batch that is done
    callback._backup(epoch=epoch, batch=batches)
