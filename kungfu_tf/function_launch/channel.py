"""The files between the caller, its runner and their children.

They have no name and mode 0600: only processes that inherit them can use them, and a kill leaves
nothing behind. Each is written once, by one process:

  function       caller → children   a pickled call, see pickling.py
  results[rank]  child → caller      RETURNED and the pickled value, or RAISED and a pickled Failure
  report         runner → caller     JSON, see report.py

A record begins with the number of bytes that follow, so that a truncated one is recognised.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from kungfu_tf import errors

RETURNED = b"v"
RAISED = b"e"

_LENGTH = struct.Struct("=Q")


class Failure(NamedTuple):
    """How a child's function failed.

    Attributes:
        summary: The exception, in a line.
        traceback: Its traceback.
        pickled: The exception, if it can be pickled.
        tells_of_another: Whether it names another peer, whose end may be its cause.
    """

    summary: str
    traceback: str
    pickled: bytes | None
    tells_of_another: bool


class Channel(NamedTuple):
    """The descriptors of one launch's files."""

    report: int
    function: int
    results: tuple[int, ...]


@contextlib.contextmanager
def opened(np: int) -> Iterator[Channel]:
    """Files for `np` children, open within the context.

    Raises:
        ResourceExhaustedError: If there cannot be that many.
    """
    with contextlib.ExitStack() as stack:
        try:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(np + 2)]
        except OSError as error:
            raise errors.ResourceExhaustedError(
                f"launch: {np} processes need {np + 2} temporary files: {error}"
            ) from error
        report, function, *results = [file.fileno() for file in files]
        yield Channel(report, function, tuple(results))


def write(descriptor: int, *parts: bytes) -> None:
    """Writes a record of these parts."""
    with open(descriptor, "wb", closefd=False) as file:
        file.write(_LENGTH.pack(sum(map(len, parts))))
        file.writelines(parts)


def read(descriptor: int) -> memoryview | None:
    """The record of a file, without a copy; None if there is none, or it is not complete.

    It does not use the position of the descriptor, which several processes share.
    """
    size = os.fstat(descriptor).st_size
    if size < _LENGTH.size:
        return None
    view = memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ))
    (length,) = _LENGTH.unpack_from(view)
    return view[_LENGTH.size :] if size == _LENGTH.size + length else None
