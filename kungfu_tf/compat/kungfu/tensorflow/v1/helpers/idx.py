"""The format IDX, in which MNIST comes: a header that tells type and shape, and the elements.

Numbers of several bytes are little-endian, as KungFu has them. (MNIST has bytes.)
"""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import tarfile
from typing import Any, BinaryIO

import numpy as np

__all__ = [
    "npz2idxtar",
    "read_idx_file",
    "read_idx_from",
    "read_idx_header",
    "write_idx_file",
    "write_idx_header",
    "write_idx_to",
]

Array = np.ndarray[Any, np.dtype[Any]]

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: "<i2", 0x0C: "<i4", 0x0D: "<f4", 0x0E: "<f8"}
_CODES = {np.dtype(name).newbyteorder("="): code for code, name in _TYPES.items()}


def read_idx_file(name: str) -> Array:
    """Reads a file; if there is none of the name, one with ".gz" behind it.

    Raises:
        FileNotFoundError: If there is neither.
        ValueError: If it is no such file, or ends too early.
    """
    name = os.fspath(name)
    is_packed = name.endswith(".gz") or (not os.path.exists(name) and os.path.exists(f"{name}.gz"))
    if not is_packed:
        with open(name, "rb") as file:
            return read_idx_from(file)
    with gzip.open(name if name.endswith(".gz") else f"{name}.gz") as packed:
        return read_idx_from(packed)


def read_idx_from(f: Any) -> Array:
    """Reads from an open file.

    Raises:
        ValueError: If it is no such file, or ends too early.
    """
    code, shape = read_idx_header(f)
    dtype = np.dtype(_TYPES[code])
    data = f.read(math.prod(shape) * dtype.itemsize)
    if len(data) < math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{_name(f)} ends before all its elements, {shape} of {dtype.name}")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx_header(f: Any) -> tuple[int, list[int]]:
    """Reads the type's number and the shape.

    Raises:
        ValueError: If it is no such file, or ends too early.
    """
    magic = f.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES:
        raise ValueError(f"{_name(f)} is not in the format IDX: it begins with {magic!r}")
    header = f.read(4 * magic[3])
    if len(header) < 4 * magic[3]:
        raise ValueError(f"{_name(f)} ends in the middle of its header")
    return magic[2], list(struct.unpack(f">{magic[3]}I", header))


def write_idx_file(name: str, a: Array) -> None:
    """Writes a file.

    Raises:
        ValueError: If the format has no such type.
    """
    with open(name, "wb") as file:
        write_idx_to(file, a)


def write_idx_to(f: BinaryIO, a: Array) -> None:
    """Writes to an open file.

    Raises:
        ValueError: If the format has no such type.
    """
    write_idx_header(f, a)
    f.write(a.astype(a.dtype.newbyteorder("<")).tobytes())


def write_idx_header(f: BinaryIO, a: Array) -> None:
    """Writes the type's number and the shape.

    Raises:
        ValueError: If the format has no such type.
    """
    if a.dtype not in _CODES:
        raise ValueError(f"the format IDX has no type {a.dtype.name}")
    f.write(bytes([0, 0, _CODES[a.dtype], a.ndim]) + struct.pack(f">{a.ndim}I", *a.shape))


def npz2idxtar(in_file: str, out_file: str | None = None) -> str:
    """Writes the arrays of an .npz file to a .tar file of files in this format.

    Args:
        in_file: The first one.
        out_file: The second one; None: weights.npz becomes weights.idx.tar.

    Returns:
        The name of the second one.
    """
    if out_file is None:
        out_file = f"{str(in_file).removesuffix('.npz')}.idx.tar"
    with np.load(in_file) as arrays, tarfile.open(out_file, "w") as tar:
        for name in arrays.files:
            content = io.BytesIO()
            write_idx_to(content, arrays[name])
            entry = tarfile.TarInfo(name)
            entry.size = content.tell()
            content.seek(0)
            tar.addfile(entry, content)
    return out_file


def _name(f: Any) -> Any:
    return getattr(f, "name", "the file")
