"""A file that appears under its name when it is complete and on the disk, or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_PREFIX = ".new-"


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yields the name to write to. At the end that file takes the place of `path`.

    After an error the file at `path` is what it was before.

    Args:
        path: A local file. The other name is in the same folder, and has the same ending.
    """
    new = path.with_name(_PREFIX + path.name)
    try:
        yield new
        flush(new)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        raise
    flush(path.parent)


def flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_local(path: object) -> bool:
    """Whether a path is one of this machine's files, and not that of an object store.

    Object stores show an object when all of it has arrived.
    """
    return isinstance(path, (str, os.PathLike)) and "://" not in os.fspath(path)
