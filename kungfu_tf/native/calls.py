"""Calls the functions of the core: those that end later, and those that return a number."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import Any

from kungfu_tf import context, errors
from kungfu_tf.native import foreign_job, libraries


def run(function: Callable[..., int | None], *arguments: Any, memory: object = None) -> None:
    """Starts an operation of the core and waits for it.

    Args:
        function: A function of the core whose last two parameters are a callback and its argument.
        *arguments: The arguments before these.
        memory: The memory that the operation reads and writes. It is kept until the operation has
            ended, even if a signal handler leaves this function earlier.

    Raises:
        KungfuError: If the operation fails.
    """
    foreign_job.join()
    _Call(memory).run(function, arguments)


def number(function: str) -> int:
    """The number that a function of the core returns, which is negative if there is no peer.

    Raises:
        KungfuError: If there is no peer; it says why it cannot start.
    """
    foreign_job.join()
    value: int = getattr(libraries.core(), function)()
    if value < 0:
        libraries.check(libraries.core().kungfu_init())
    return value


def options(name: str, **fields: int) -> libraries.Options:
    """The options of an operation, among the group of the surroundings.

    Args:
        name: The name by which peers match it.
        **fields: Other fields of `libraries.Options`.
    """
    group = context.current().group
    number = 0 if group is None else group.number
    return libraries.Options(name=name.encode(), group=number, **fields)


def largest_of_all(number: int, name: str) -> int:
    """The largest of all peers' numbers. All peers call it, in the same order.

    Args:
        number: A number of 64 bits.
        name: The name of the operation.
    """
    value = ctypes.c_int64(number)
    here = ctypes.addressof(value)
    span = libraries.Span(here, here, 1)
    of_all = options(name, dtype=libraries.INT64, op=libraries.MAX)
    run(
        libraries.core().kungfu_all_reduce,
        *(ctypes.byref(span), 1, ctypes.byref(of_all)),
        memory=value,
    )
    return value.value


def gather_bytes(mine: bytes, name: str, *, digest: int) -> list[bytes]:
    """The bytes of all ranks. All peers call it, in the same order; lengths may differ.

    Args:
        mine: Those of this peer.
        name: The name of the operation.
        digest: A number that must be the same on all peers.
    """
    call = _Call(mine)
    of_all = options(name, dtype=libraries.UINT8, shape_digest=digest)
    arguments = (mine, len(mine), ctypes.byref(of_all), call.on_allocate)
    call.run(libraries.core().kungfu_all_gather, arguments)
    ends = itertools.accumulate(call.counts)
    return [call.result[end - n : end] for n, end in zip(call.counts, ends, strict=True)]


class _Call:
    """One operation of the core. The core knows it by its number until the operation has ended.

    Attributes:
        counts: How many bytes of a result come from each rank.
    """

    _numbers = itertools.count(1)
    _pending: dict[int, _Call] = {}

    def __init__(self, memory: object) -> None:
        self.counts: list[int] = []
        self._memory = memory
        self._result: Any = None
        self._done = threading.Event()
        self._code = 0
        self._message = ""

    def run(self, function: Callable[..., int | None], arguments: tuple[Any, ...]) -> None:
        number = next(self._numbers)
        self._pending[number] = self
        operation = function(*arguments, self._on_done, number)
        try:
            self._done.wait()  # the core has the deadline
        except BaseException:  # from the handler of a signal
            if operation is not None:
                libraries.core().kungfu_cancel(operation, 0, b"")
            raise
        if self._code != 0:
            raise errors.from_code(self._code, self._message)

    @property
    def result(self) -> bytes:
        """The bytes that the core has written."""
        return bytes(self._result)[: sum(self.counts)]

    @staticmethod
    @libraries.Allocate
    def on_allocate(number: int, counts: Any, size: int) -> int:
        """Makes the memory of a result, which has a byte more than it needs."""
        call = _Call._pending[number]
        call.counts = counts[:size]
        call._result = (ctypes.c_uint8 * (sum(call.counts) + 1))()
        return ctypes.addressof(call._result)

    @staticmethod
    @libraries.Done
    def _on_done(number: int, code: int, message: bytes | None) -> None:
        call = _Call._pending.pop(number)
        call._code, call._message = code, (message or b"").decode(errors="replace")
        call._done.set()
