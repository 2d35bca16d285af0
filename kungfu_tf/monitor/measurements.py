"""The measurements of the core, read through kungfu_monitor.h without TensorFlow."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

from kungfu_tf.native import foreign_job, libraries

_BUCKETS = 28  # of the histogram

WAYS = ("shared_memory", "unix", "tcp")
"""The ways between peers, in the core's order: shared memory, and two kinds of sockets."""


class _Flow(ctypes.Structure):
    _fields_ = [
        ("egress_bytes", ctypes.c_uint64),
        ("ingress_bytes", ctypes.c_uint64),
        ("egress_rate", ctypes.c_double),
        ("ingress_rate", ctypes.c_double),
    ]


class _Traffic(ctypes.Structure):
    _fields_ = [("total", _Flow), ("by_way", _Flow * len(WAYS))]


class _Latencies(ctypes.Structure):
    _fields_ = [
        ("upper_bound", ctypes.c_double * _BUCKETS),
        ("count", ctypes.c_uint64 * _BUCKETS),
        ("seconds", ctypes.c_double),
        ("bytes", ctypes.c_uint64),
    ]


class _Throughput(ctypes.Structure):
    _fields_ = [
        ("strategy", ctypes.c_char_p),
        ("bytes", ctypes.c_uint64),
        ("seconds", ctypes.c_double),
        ("newest", ctypes.c_double),
        ("best", ctypes.c_double),
    ]


class Flow(NamedTuple):
    """Bytes since the start, and bytes per second over about a second."""

    egress_bytes: int
    ingress_bytes: int
    egress_rate: float
    ingress_rate: float


class Traffic(NamedTuple):
    """The traffic with one peer: all of it, as in `Flow`, and the part of each of `WAYS`."""

    egress_bytes: int
    ingress_bytes: int
    egress_rate: float
    ingress_rate: float
    by_way: dict[str, Flow]


class Latencies(NamedTuple):
    """The times of all operations that this peer has completed.

    Attributes:
        counts: For each upper bound in seconds, how many operations took no longer than it, but
            longer than the bound before. The last bound is infinity.
        seconds: The sum over all operations.
        bytes: The bytes that this peer gave to them.
    """

    counts: dict[float, int]
    seconds: float
    bytes: int


class Throughput(NamedTuple):
    """The monitored operations under one strategy; rates are in bytes per second.

    Attributes:
        bytes: The bytes that this peer gave to them.
        seconds: The time in which there was one.
        newest: The rate in the last window that had some.
        best: The highest rate of all windows with these peers and this tree.
    """

    bytes: int
    seconds: float
    newest: float
    best: float


class Moved(NamedTuple):
    """Bytes that this peer gave to monitored operations, and the seconds in which there was one."""

    bytes: int
    seconds: float


@functools.cache
def _core() -> Any:
    foreign_job.join()
    core = libraries.core()
    core.kungfu_get_traffic.argtypes = [ctypes.POINTER(_Traffic), ctypes.c_int]
    core.kungfu_get_latencies.argtypes = [ctypes.POINTER(_Latencies)]
    core.kungfu_get_latencies.restype = None
    core.kungfu_get_throughputs.argtypes = [ctypes.POINTER(_Throughput), ctypes.c_int]
    core.kungfu_end_window.restype = ctypes.c_double
    core.kungfu_strategy.restype = ctypes.c_char_p
    return core


def traffic() -> list[Traffic]:
    """The traffic with each peer, by rank. Starts the peer."""
    size = _core().kungfu_get_traffic(None, 0)
    if size < 0:
        libraries.check(libraries.core().kungfu_init())  # says why there is no peer
    result = (_Traffic * size)()
    _core().kungfu_get_traffic(result, size)
    return [
        Traffic(*_flow_of(one.total), dict(zip(WAYS, map(_flow_of, one.by_way), strict=True)))
        for one in result
    ]


def _flow_of(flow: _Flow) -> Flow:
    return Flow(flow.egress_bytes, flow.ingress_bytes, flow.egress_rate, flow.ingress_rate)


def latencies() -> Latencies:
    """The latencies of this peer's operations."""
    result = _Latencies()
    _core().kungfu_get_latencies(ctypes.byref(result))
    counts = dict(zip(result.upper_bound, result.count, strict=True))
    return Latencies(counts, result.seconds, result.bytes)


def throughputs() -> dict[str, Throughput]:
    """The throughput of each strategy that has moved something, by its name."""
    result = (_Throughput * _core().kungfu_get_throughputs(None, 0))()
    _core().kungfu_get_throughputs(result, len(result))
    return {r.strategy.decode(): Throughput(r.bytes, r.seconds, r.newest, r.best) for r in result}


def moved() -> Moved:
    """What was moved since the start, with any strategy."""
    of_all = throughputs().values()
    return Moved(sum(one.bytes for one in of_all), sum(one.seconds for one in of_all))


def throughput_since(before: Moved) -> float:
    """The throughput since then, in bytes per second; 0 if nothing was moved."""
    now = moved()
    seconds = now.seconds - before.seconds
    return (now.bytes - before.bytes) / seconds if seconds > 0 else 0.0


def end_window() -> float:
    """Ends a window, and returns the newest throughput of the strategy in use."""
    return float(_core().kungfu_end_window())


def strategy() -> str:
    """The name of the strategy in use; "AUTO" before the first operation."""
    name: bytes = _core().kungfu_strategy()
    return name.decode()
