"""The files between the caller, its runner and their children.

They have no name and mode 0600. Only processes that inherit them can use them, and nothing remains
of them after a kill. One process writes each, once:

  function       caller → children   a pickled pair, see pickling.py
  results[rank]  child → caller      RETURNED and the pickled value, or RAISED and a pickled Failure
  report         runner → caller     JSON, see report.py

A record begins with the number of the bytes that follow, so that one that was cut off is seen.
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
    """How a child's function failed. `pickled`: the exception, if it can be."""

    summary: str
    traceback: str
    pickled: bytes | None


class Channel(NamedTuple):
    """The descriptors of one launch's files."""

    report: int
    function: int
    results: tuple[int, ...]


@contextlib.contextmanager
def opened(np: int) -> Iterator[Channel]:
    """Files for `np` children, open within the context.

    Raises:
        ResourceExhaustedError: There cannot be as many.
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
    """The record, as it lies in the file; None if there is none, or not all of it.

    Several processes share the descriptor's position, which therefore is not used.
    """
    size = os.fstat(descriptor).st_size
    if size < _LENGTH.size:
        return None
    view = memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ))
    (length,) = _LENGTH.unpack_from(view)
    return view[_LENGTH.size :] if size == _LENGTH.size + length else None
