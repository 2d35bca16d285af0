"""Reserves ports for the peers of this host.

A peer binds its port itself, some time after the launcher has chosen it. So for each port the
launcher holds an abstract Unix socket with a fixed name: other launchers in the same network
namespace see it and choose another port. Ports that other programs use are skipped, too.
"""

import errno
import socket

from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing.hosts import IPAddress


class Reservation:
    """The ports that this launcher holds on one address."""

    def __init__(self, address: IPAddress) -> None:
        self._address = address
        self._held: dict[int, socket.socket] = {}
        self._given_back: set[int] = set()

    def take_free(self, count: int, port_range: tuple[int, int]) -> list[int]:
        """Reserves the first `count` free ports of a range.

        Raises:
            LaunchError: If the range does not have that many.
        """
        taken: list[int] = []
        for port in range(port_range[0], port_range[1] + 1):
            if len(taken) == count:
                break
            if self._try(port) is None:
                taken.append(port)
        if len(taken) < count:
            self.close()
            raise LaunchError(
                f"-port-range {port_range[0]}-{port_range[1]}: only {len(taken)} of"
                f" {count} ports are free on {self._address}"
            )
        return taken

    def take_another(self, port_range: tuple[int, int]) -> int:
        """Reserves one more port of a range, which this launcher has not had before.

        Raises:
            LaunchError: If there is none.
        """
        first, last = port_range
        for port in range(first, last + 1):
            if port not in self._given_back and self._try(port) is None:
                return port
        raise LaunchError(f"-port-range {first}-{last}: no port is left on {self._address}")

    def take(self, ports: list[int]) -> None:
        """Reserves exactly these ports.

        Raises:
            LaunchError: If one of them is not free; it says why.
        """
        for port in ports:
            reason = self._try(port)
            if reason is not None:
                self.close()
                raise LaunchError(
                    f"port {port} of {self._address} {reason}; choose others by -port-range"
                )

    def give_back(self, port: int) -> None:
        """Lets other launchers have the port of a peer that has ended; this one not any more."""
        self._held.pop(port).close()
        self._given_back.add(port)

    def close(self) -> None:
        for held in self._held.values():
            held.close()
        self._held.clear()

    def _try(self, port: int) -> str | None:
        """Takes a port; returns None if it is ours now, else why not."""
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock.bind(f"\0kungfu-run/{self._address}/{port}")
        except OSError:
            lock.close()
            return "belongs to another kungfu-run"
        reason = _why_not_free(self._address, port)
        if reason is None:
            self._held[port] = lock
        else:
            lock.close()
        return reason


def _why_not_free(address: IPAddress, port: int) -> str | None:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((str(address), port))
            # Under SO_REUSEADDR only listening tells whether another process listens.
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise
        if error.errno == errno.EADDRINUSE:
            return "is in use"
        return f"cannot be used: {error.strerror}"
    return None
