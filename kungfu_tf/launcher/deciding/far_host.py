"""The runner of another host, as the leader sees it."""

from collections.abc import Callable, Sequence

from kungfu_tf.launcher.channels.control import LONGEST_LINE, one_line
from kungfu_tf.links.connections import Connection


class FarHost:
    """A Host that gets lines. They are kept until its runner connects."""

    has_begun = False  # its runner does not say it, and its peers need those of the first host

    def __init__(self, send: Callable[[Connection, bytes], None]) -> None:
        self._send = send
        self._waiting: list[str] = []
        self.connection: Connection | None = None
        self.gone = False

    def connect(self, connection: Connection) -> None:
        self.connection = connection
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self.say(line)

    def say(self, line: str) -> None:
        if self.connection is not None:
            self._send(self.connection, line.encode()[:LONGEST_LINE] + b"\n")
        elif not self.gone:
            self._waiting.append(line)

    def start(self, number: int, version: int) -> None:
        self.say(f"start {number} {version}")

    def dismiss(self, number: int) -> None:
        self.say(f"dismiss {number}")

    def forgive(self, number: int) -> None:
        self.say(f"forgive {number}")

    def publish(
        self,
        version: int,
        since: int,
        peers: Sequence[str],
        told: Sequence[int],
        lost: str = "",
    ) -> None:
        numbers = ",".join(map(str, told))
        line = f"publish {version} {since} {','.join(peers) or '-'} {numbers} {one_line(lost)}"
        self.say(line.rstrip())

    def renew(self, version: int, told: Sequence[int]) -> None:
        self.say(f"renew {version} {','.join(map(str, told))}")

    def failed(self, peer: str, text: str) -> None:
        self.say(f"failed {peer} {one_line(text)}")

    def finished(self, peer: str) -> None:
        self.say(f"left {peer}")

    def warn(self, signum: int) -> None:
        self.say(f"warn {signum}")

    def stop_all(self, first: int, code: int) -> None:
        self.say(f"end {first} {code}")
