"""The format IDX, in which MNIST comes: a header that tells type and shape, and the elements."""

from __future__ import annotations

import gzip
import math
import os
import struct
from typing import Any, BinaryIO

import numpy as np

__all__ = ["read_idx_file", "read_idx_tensor", "write_idx_file", "write_idx_tensor"]

Array = np.ndarray[Any, np.dtype[Any]]

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CODES = {np.dtype(name).newbyteorder("="): code for code, name in _TYPES.items()}


def read_idx_file(filename: str) -> Array:
    """Reads a file; if there is none of the name, one with ".gz" behind it.

    Raises:
        FileNotFoundError: If there is neither.
        ValueError: If it is no such file, or ends too early.
    """
    filename = os.fspath(filename)
    is_packed = filename.endswith(".gz") or (
        not os.path.exists(filename) and os.path.exists(f"{filename}.gz")
    )
    if not is_packed:
        with open(filename, "rb") as file:
            return read_idx_tensor(file)
    with gzip.open(filename if filename.endswith(".gz") else f"{filename}.gz") as packed:
        return read_idx_tensor(packed)


def read_idx_tensor(f: Any) -> Array:
    """Reads from an open file."""
    where = getattr(f, "name", "the file")
    magic = f.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES:
        raise ValueError(f"{where} is not in the format IDX: it begins with {magic!r}")
    header = f.read(4 * magic[3])
    if len(header) < 4 * magic[3]:
        raise ValueError(f"{where} ends in the middle of its header")
    shape = struct.unpack(f">{magic[3]}I", header)
    dtype = np.dtype(_TYPES[magic[2]])
    data = f.read(math.prod(shape) * dtype.itemsize)
    if len(data) < math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{where} ends before all its elements, {shape} of {dtype.name}")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def write_idx_file(filename: str, a: Array) -> None:
    """Writes a file."""
    with open(filename, "wb") as file:
        write_idx_tensor(file, a)


def write_idx_tensor(f: BinaryIO, a: Array) -> None:
    """Writes to an open file.

    Raises:
        ValueError: If the format has no such type.
    """
    if a.dtype not in _CODES:
        raise ValueError(f"the format IDX has no type {a.dtype.name}")
    f.write(bytes([0, 0, _CODES[a.dtype], a.ndim]) + struct.pack(f">{a.ndim}I", *a.shape))
    f.write(a.astype(a.dtype.newbyteorder(">")).tobytes())
