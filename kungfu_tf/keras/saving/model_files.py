"""Keras' `save` and `save_weights`, whose files are whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kungfu_tf.keras.saving.whole_file import is_local, written_whole

_ENDINGS = (".keras", ".h5", ".hdf5")


def save(original: Callable[..., Any], model: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
    """Keras' method. A file takes its place when it is complete.

    Formats of several files, and files that Keras asks about before it overwrites them, are as
    Keras writes them.
    """
    if not _is_one_file(filepath) or args or not _is_plain(**kwargs):
        return original(model, filepath, *args, **kwargs)
    with written_whole(Path(filepath)) as new:
        return original(model, os.fspath(new), **kwargs)


def _is_one_file(filepath: Any) -> bool:
    if not is_local(filepath):
        return False
    path = Path(filepath)
    return path.suffix in _ENDINGS and path.parent.is_dir() and not path.is_dir()


def _is_plain(overwrite: bool = True, **options: Any) -> bool:
    return overwrite and not options
