"""The runner of the first host, which decides for the runners of the others (runner_link.py)."""

import errno
import math
import os
import re
import socket
import time
from collections.abc import Callable, Sequence

from kungfu_tf.launcher.channels.control import LONGEST_LINE, one_line
from kungfu_tf.launcher.channels.signals import WARNING
from kungfu_tf.launcher.deciding.director import LOST, Host, Rules
from kungfu_tf.launcher.deciding.far_host import FarHost
from kungfu_tf.launcher.deciding.leader import Leader
from kungfu_tf.launcher.deciding.lease import Lease
from kungfu_tf.launcher.deciding.runner_link import (
    BEAT,
    COMING_DEADLINE,
    HANDSHAKE_DEADLINE,
    QUIET,
    SILENT,
    Link,
    is_gone,
    keep_alive,
)
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing.cluster import Cluster
from kungfu_tf.launcher.placing.hosts import IPAddress
from kungfu_tf.links.connections import Connection, Connections
from kungfu_tf.links.handshake import Asked

MOST_STRANGERS = 64
CONTESTED = 20.0  # a runner notices a loss within 6 s, and gives up after 10 s (succession.py)

_GOODBYE = 5.0  # seconds that the other runners have to learn of the job's end
_LONGEST_HELLO = 1024

_NUMBER = "([0-9]{1,7})"
_LINES = {
    "started": re.compile(f"{_NUMBER} ([0-9a-f.:\\[\\]]{{1,64}})"),
    "ready": re.compile(_NUMBER),
    "entered": re.compile(f"{_NUMBER} {_NUMBER}"),
    "broken": re.compile(f"{_NUMBER} {_NUMBER}"),
    "propose": re.compile(f"{_NUMBER}(?: (-?[0-9]{{1,7}}))?"),
    "notice": re.compile(_NUMBER),
    "leave": re.compile(_NUMBER),
    "ended": re.compile(f"{_NUMBER} (-?[0-9]{{1,3}}) ([01])"),
    "warned": re.compile(f"([0-9]{{1,2}}) {_NUMBER}"),
    "end": re.compile("([0-9]{1,2}) ([0-9]{1,3})"),
}


class LeaderOfOthers(Leader):
    """Decides for its own host and for others, whose runners connect.

    Args:
        own: The runner of this, the first host.
        link: How the others reach it.
        rules: The rules of the decisions.
        lease: The claim to lead, if other runners may lead, too.
        say: A line for the user.

    Raises:
        LaunchError: If the port is not available.
    """

    def __init__(
        self,
        cluster: Cluster,
        own: Host,
        link: Link,
        rules: Rules,
        lease: Lease | None = None,
        *,
        say: Callable[[str], None],
    ) -> None:
        self._lease = lease
        self._contested = -math.inf  # until then a runner that was lost may ask for the lead
        self._others = {
            host.address: FarHost(self._send)
            for host in cluster.hosts
            if host.address != cluster.here
        }
        super().__init__(cluster, {cluster.here: own, **self._others}, rules, say=say)
        self._credentials = link.credentials
        self._began = self._beat = time.monotonic()
        self._left: float | None = None
        self._has_refused = False
        self._strangers: dict[Connection, Asked] = {}
        self._addresses: dict[Connection, IPAddress] = {}
        self._connections = Connections(
            _listen(cluster.here, link.port),
            link.selector,
            most_strangers=MOST_STRANGERS,
            deadline=HANDSHAKE_DEADLINE,
            readable=self._read,
            opened=self._greet,
            closed=self._closed,
        )

    @property
    def over(self) -> bool:
        """Whether nothing of the job lives, and the other runners know."""
        if self._left is None:
            return False
        return not self._addresses or time.monotonic() > self._left + _GOODBYE

    def advance(self) -> None:
        super().advance()
        now = time.monotonic()
        self._connections.drop_slow()
        self._check_lease()
        if self._left is None and super().over:
            self._left = now
            for far in self._others.values():
                far.say(f"over {self.code} {self.again or 0} {int(self.recovering)}")
        if now >= self._beat:
            self._beat = now + BEAT
            for connection in list(self._addresses):
                if now - connection.heard > SILENT or is_gone(connection.socket):
                    self._connections.close(connection)
            self._ask_all()
        if now > self._began + COMING_DEADLINE:
            for address, far in self._others.items():
                if far.connection is None and not far.gone and self.needs(address):
                    far.gone = True
                    self.lost(address, f"has not come within {COMING_DEADLINE:g} s")

    def broken(self, number: int, version: int) -> None:
        super().broken(number, version)
        self._ask_all()

    def _all_answer(self, since: float) -> bool:
        return all(connection.heard > since for connection in self._addresses)

    def _ask_all(self) -> None:
        for connection in list(self._addresses):
            self._send(connection, b"alive\n")

    def lost(self, address: IPAddress, why: str) -> None:
        self._contested = time.monotonic() + CONTESTED
        self._check_lease()
        super().lost(address, why)

    def _check_lease(self) -> None:
        """Ends the job if another runner leads by now, or may do so."""
        lease = self._lease
        if lease is None or self._ending:
            return
        if lease.successor is not None:
            why = f"the runner on {lease.successor} leads by now"
        elif time.monotonic() < self._contested and not lease.is_held:
            trouble = lease.trouble or "lets another one lead"
            why = f"a host is lost, so that another runner may lead, and the store {trouble}"
        else:
            return
        self._say(f"the job ends: {why}")
        self.stop_all(0, LOST)

    def close(self) -> None:
        self._left = -math.inf
        self._connections.close_all()
        if self._lease is not None:
            self._lease.close()

    def _send(self, connection: Connection, data: bytes) -> None:
        if connection in self._connections.all:
            self._connections.send(connection, data)

    def _greet(self, connection: Connection) -> None:
        keep_alive(connection.socket)
        asked = self._strangers[connection] = Asked(self._credentials)
        self._connections.send(connection, asked.greeting.encode() + b"\n")

    def _read(self, connection: Connection) -> None:
        if connection in self._addresses and time.monotonic() - connection.heard > QUIET:
            self._begin_repair()
        self._connections.read_lines(
            connection, LONGEST_LINE, self._take, longest_of_strangers=_LONGEST_HELLO
        )

    def _take(self, connection: Connection, line: str) -> bool:
        if connection not in self._addresses:
            return self._hello(connection, line)
        command, _, rest = line.partition(" ")
        if command == "alive":
            return True
        match = _LINES[command].fullmatch(rest) if command in _LINES else None
        if match is None:
            return False
        address = self._addresses[connection]
        if command == "end":
            self.stop_all(int(match[1]), int(match[2]))
            return True
        if command == "warned":
            if is_warning := int(match[1]) in WARNING:
                self.warned(int(match[1]), int(match[2]))
            return is_warning
        return self._report(address, command, int(match[1]), match.groups()[1:])

    def _report(
        self, address: IPAddress, command: str, number: int, more: Sequence[str | None]
    ) -> bool:
        if not self.runs_on(number, address):
            return False
        if command == "started":
            self.started(number, str(more[0]))
        elif command == "ready":
            self.ready(number)
        elif command == "entered":
            self.entered(number, int(str(more[0])))
        elif command == "broken":
            self.broken(number, int(str(more[0])))
        elif command == "propose":
            size = None if more[0] is None else int(more[0])
            self.propose(number, size, self._answer(self._others[address], number))
        elif command == "notice":
            self.notice(number, self._answer(self._others[address], number))
        elif command == "leave":
            self.leave(number, self._answer(self._others[address], number))
        else:
            self.ended(number, int(str(more[0])), stopped=more[1] == "1")
        return True

    def _answer(self, far: FarHost, number: int) -> Callable[[str | None], None]:
        def answer(refusal: str | None) -> None:
            far.say(
                f"proposed {number}" if refusal is None else f"refused {number} {one_line(refusal)}"
            )

        return answer

    def _hello(self, connection: Connection, line: str) -> bool:
        answer = self._strangers[connection].answer(line)
        found = [one for one in self._others if answer is not None and str(one) == answer[0]]
        if answer is None or not found:
            if not self._has_refused:
                self._has_refused = True
                self._say(
                    f"refused {connection.socket.getpeername()[0]}, which wants to take part: its"
                    " KUNGFU_SECRET or command line differs, or it is no runner of this job"
                )
            return False
        far = self._others[found[0]]
        if far.connection is not None or far.gone:
            return False
        connection.known = True
        del self._strangers[connection]
        self._addresses[connection] = found[0]
        self._send(connection, answer[1].encode() + b"\n")
        far.connect(connection)
        return True

    def _closed(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        address = self._addresses.pop(connection, None)
        if address is not None:
            far = self._others[address]
            far.connection, far.gone = None, True
            if self._left is None:
                self.lost(address, "is gone")


def _listen(address: IPAddress, port: int) -> socket.socket:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        return socket.create_server((str(address), port), family=family, backlog=128)
    except OSError as error:
        used = error.errno == errno.EADDRINUSE
        reason = "is in use" if used else f"cannot be used: {os.strerror(error.errno or 0)}"
        raise LaunchError(
            f"port {port} of {address}, for the runners of the other hosts, {reason}; choose"
            " another by -port"
        ) from None
