"""Ports for the peers of this host, reserved against other launchers and checked against the rest.

A peer binds its port itself, a while after the launcher has chosen it. For each port the launcher
holds an abstract Unix socket of a fixed name until it ends. Other launchers of the same network
namespace see it and choose another port. The kernel removes it with the launcher.
"""

import errno
import socket

from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing.hosts import IPAddress


class Reservation:
    """The ports that this launcher holds on one address."""

    def __init__(self, address: IPAddress) -> None:
        self._address = address
        self._held: list[socket.socket] = []

    def take_free(self, count: int, port_range: tuple[int, int]) -> list[int]:
        """Reserves the first `count` free ports of a range.

        Raises:
            LaunchError: the range does not have as many.
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
            LaunchError: there is none.
        """
        first, last = port_range
        for port in range(first, last + 1):
            if self._try(port) is None:
                return port
        raise LaunchError(f"-port-range {first}-{last}: no port is left on {self._address}")

    def take(self, ports: list[int]) -> None:
        """Reserves exactly these ports.

        Raises:
            LaunchError: one of them cannot be had, and why.
        """
        for port in ports:
            reason = self._try(port)
            if reason is not None:
                self.close()
                raise LaunchError(
                    f"port {port} of {self._address} {reason}; choose others by -port-range"
                )

    def close(self) -> None:
        for held in self._held:
            held.close()
        self._held.clear()

    def _try(self, port: int) -> str | None:
        """None if the port is now ours, else why not."""
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock.bind(f"\0kungfu-run/{self._address}/{port}")
        except OSError:
            lock.close()
            return "belongs to another kungfu-run"
        reason = _why_not_free(self._address, port)
        if reason is None:
            self._held.append(lock)
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
        if error.errno == errno.EADDRINUSE:
            return "is in use"
        return f"cannot be used: {error.strerror}"
    return None
