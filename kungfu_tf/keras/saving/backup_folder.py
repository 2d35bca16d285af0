"""The backup of Keras 3's `BackupAndRestore`: weights, the epoch that they belong to, and more.

Beside Keras' files is the state of algorithms (`algorithm_state.py`).

A backup is written into a folder of another name, which is then renamed. From that moment on it is
the newest one: its files are moved to where Keras looks for them, now or, if the process ends
before, by the next one that restores.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kungfu_tf.keras.saving import algorithm_state
from kungfu_tf.keras.saving.whole_file import flush, is_local

_INCOMPLETE, _COMPLETE = "kungfu_incomplete", "kungfu_complete"
_PATHS = ("_weights_path", "_training_metadata_path")


def save(original: Callable[..., Any], callback: Any, *args: Any, **kwargs: Any) -> None:
    """Keras' `_save_model`."""
    with one_backup(callback):
        original(callback, *args, **kwargs)
        algorithm_state.save(callback.model, callback.backup_dir)


def restore(original: Callable[..., Any], callback: Any, *args: Any, **kwargs: Any) -> None:
    """Keras' `on_train_begin`."""
    if is_local(callback.backup_dir):
        _take_in(callback, Path(callback.backup_dir))
    original(callback, *args, **kwargs)
    algorithm_state.restore(callback.model, callback.backup_dir)


def remove(original: Callable[..., Any], callback: Any, *args: Any, **kwargs: Any) -> None:
    """Keras' `on_train_end`. A backup that is removed is never a part of one."""
    folder = callback.backup_dir
    if callback.delete_checkpoint and is_local(folder) and Path(folder).is_dir():
        removed = Path(folder).with_name(f".removed-{Path(folder).name}")
        shutil.rmtree(removed, ignore_errors=True)
        os.replace(folder, removed)
        shutil.rmtree(removed)
    original(callback, *args, **kwargs)


@contextlib.contextmanager
def one_backup(callback: Any) -> Iterator[None]:
    """What the callback writes into its folder within it is there as a whole, or not at all.

    Args:
        callback: A `BackupAndRestore` of Keras 3. Within it, its paths are others.
    """
    folder = callback.backup_dir
    if not is_local(folder) or Path(folder).name == _INCOMPLETE:
        yield
        return
    folder = Path(folder)
    _take_in(callback, folder)
    incomplete = folder / _INCOMPLETE
    shutil.rmtree(incomplete, ignore_errors=True)
    incomplete.mkdir(parents=True)
    with _paths_in(callback, incomplete):
        yield
    for file in incomplete.iterdir():
        flush(file)
    flush(incomplete)
    os.replace(incomplete, folder / _COMPLETE)
    flush(folder)
    _take_in(callback, folder)


@contextlib.contextmanager
def _paths_in(callback: Any, folder: Path) -> Iterator[None]:
    """Within it the callback writes into this folder."""
    before = {"backup_dir": callback.backup_dir}
    before.update({name: getattr(callback, name) for name in _PATHS})
    try:
        callback.backup_dir = os.fspath(folder)
        for name in _PATHS:
            setattr(callback, name, os.fspath(folder / Path(before[name]).name))
        yield
    finally:
        vars(callback).update(before)


def _take_in(callback: Any, folder: Path) -> None:
    """Moves the files of a complete backup to where Keras looks for them, if there is one.

    If it is interrupted, what is left to be moved tells where to go on.
    """
    complete = folder / _COMPLETE
    if not complete.is_dir():
        return
    keeps_last = getattr(callback, "double_checkpoint", False)
    for file in sorted(complete.iterdir()):
        place = folder / file.name
        if keeps_last and place.exists():
            os.replace(place, place.with_name(place.name + ".bkp"))
        os.replace(file, place)
    flush(folder)
    complete.rmdir()
