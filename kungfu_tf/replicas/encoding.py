"""Bytes for plain Python objects, and back. Reading them runs no code, as a pickle would.

An object is a letter, a number of 8 bytes (little-endian), and that many bytes, or of a container
that many objects:

    N  None      T, F  a bool       i  an int, in decimal digits     d  a float, of 8 bytes
    s  a str     b  bytes           l, t, m  a list, a tuple, a dict (its keys and values in turn)
    a  an array  its dtype's name and its shape as objects, and its bytes; g  a NumPy scalar
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kungfu_tf import errors

_NUMBER = struct.Struct("<Q")
_FLOAT = struct.Struct("<d")
_NUMBERS = "biufc"  # kinds of dtypes; bfloat16 and the like are V, as structures are


def encode(value: Any) -> bytes:
    """The bytes of an object.

    Args:
        value: None, bool, int, float, str, bytes, NumPy arrays and scalars of numbers, and lists,
            tuples and dicts of these. Arrays arrive in the machine's byte order.

    Raises:
        UnsupportedTypeError: If it is, or holds, anything else. It says where.
    """
    out = bytearray()
    _write(out, value, "the object")
    return bytes(out)


def decode(data: bytes) -> Any:
    """The object of which `encode` has made the bytes.

    Raises:
        InvalidArgumentError: If it has not.
    """
    try:
        value, end = _read(memoryview(data), 0)
    except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        raise errors.InvalidArgumentError(f"not an encoded object: {error}") from error
    if end != len(data):
        raise errors.InvalidArgumentError(f"{len(data) - end} bytes behind an encoded object")
    return value


def _write(out: bytearray, value: Any, where: str) -> None:
    kind = type(value)
    if value is None:
        _put(out, "N")
    elif kind is bool:
        _put(out, "T" if value else "F")
    elif kind is int:
        _put(out, "i", str(value).encode())
    elif kind is float:
        _put(out, "d", _FLOAT.pack(value))
    elif kind is str:
        _put(out, "s", value.encode())
    elif kind is bytes:
        _put(out, "b", value)
    elif kind is list or kind is tuple:
        _write_all(out, "l" if kind is list else "t", len(value), value, where)
    elif kind is dict:
        _write_all(out, "m", len(value), (part for item in value.items() for part in item), where)
    elif _is_of_numbers(value):
        array = np.asarray(value, value.dtype.newbyteorder("="))
        parts = (array.dtype.name, array.shape, array.tobytes())
        _write_all(out, "a" if kind is np.ndarray else "g", 1, parts, where)
    else:
        raise errors.UnsupportedTypeError(
            f"{where} is a {kind.__module__}.{kind.__qualname__}, which only a pickle can hold: "
            "pickle=True"
        )


def _is_of_numbers(value: Any) -> bool:
    """Whether it is a scalar of NumPy, or an array and no subclass, whose elements are numbers."""
    if type(value) is not np.ndarray and not isinstance(value, np.generic):
        return False
    dtype = value.dtype
    return dtype.kind in _NUMBERS or (dtype.kind == "V" and not issubclass(dtype.type, np.void))


def _write_all(out: bytearray, letter: str, count: int, parts: Iterable[Any], where: str) -> None:
    out += letter.encode() + _NUMBER.pack(count)
    for number, part in enumerate(parts):
        _write(out, part, f"part {number} of {where}")


def _put(out: bytearray, letter: str, content: bytes = b"") -> None:
    out += letter.encode() + _NUMBER.pack(len(content)) + content


def _read(data: memoryview, start: int) -> tuple[Any, int]:
    """The object that begins there, and where the next one begins."""
    letter = chr(data[start])
    (number,) = _NUMBER.unpack_from(data, start + 1)
    begin = start + 1 + _NUMBER.size
    if letter in "lt":
        values, end = _read_all(data, begin, number)
        return (values if letter == "l" else tuple(values)), end
    if letter == "m":
        parts, end = _read_all(data, begin, 2 * number)
        return dict(zip(parts[::2], parts[1::2], strict=True)), end
    if letter in "ag":
        (name, shape, content), end = _read_all(data, begin, 3)
        array = np.frombuffer(content, np.dtype(name)).reshape(shape).copy()
        return (array if letter == "a" else array[()]), end
    content = bytes(data[begin : begin + number])
    if len(content) != number:
        raise ValueError(f"{len(content)} of {number} bytes are there")
    return _READERS[letter](content), begin + number


def _read_all(data: memoryview, begin: int, count: int) -> tuple[list[Any], int]:
    values = []
    for _ in range(count):
        value, begin = _read(data, begin)
        values.append(value)
    return values, begin


_READERS: dict[str, Callable[[bytes], Any]] = {
    "N": lambda _: None,
    "T": lambda _: True,
    "F": lambda _: False,
    "i": int,
    "d": lambda content: _FLOAT.unpack(content)[0],
    "s": lambda content: content.decode(),
    "b": lambda content: content,
}
