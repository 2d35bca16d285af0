"""Ports for tests that must name them before anybody listens there."""

import contextlib
import random
import socket

# Above those that launchers choose by themselves, below those that the system gives away.
_FIRST, _LAST = 12000, 32000


def take(count: int = 1) -> range:
    """So many in a row that nobody uses at any address.

    Until this process ends no other one gets them here: each holds, for every port, an abstract
    Unix socket of a fixed name.
    """
    for _ in range(1000):
        first = random.randrange(_FIRST, _LAST - count)
        ports = range(first, first + count)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            locks = [held.enter_context(socket.socket(socket.AF_UNIX)) for _ in ports]
            for lock, port in zip(locks, ports, strict=True):
                lock.bind(f"\0kungfu-test/port/{port}")
                socket.create_server(("", port)).close()
            held.pop_all()
            for lock in locks:
                lock.detach()
            return ports
    raise AssertionError("no port is free")
