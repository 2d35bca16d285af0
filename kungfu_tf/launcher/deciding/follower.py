"""The runner of a host that does not lead: it reports to the leader, and obeys it.

The other side of leader_of_others.py; runner_link.py has the lines.
"""

import collections
import math
import re
import socket
import time
from collections.abc import Callable

from kungfu_tf import errors
from kungfu_tf.launcher.channels.control import LONGEST_LINE, Answer
from kungfu_tf.launcher.channels.signals import WARNING
from kungfu_tf.launcher.deciding.director import LOST, Host
from kungfu_tf.launcher.deciding.knowledge import Knowledge
from kungfu_tf.launcher.deciding.runner_link import (
    BEAT,
    COMING_DEADLINE,
    HANDSHAKE_DEADLINE,
    SILENT,
    Link,
    is_gone,
    keep_alive,
)
from kungfu_tf.launcher.placing.cluster import Cluster
from kungfu_tf.launcher.placing.hosts import IPAddress
from kungfu_tf.links.connections import Connection, Connections
from kungfu_tf.links.handshake import Asking

TURNING_DEADLINE = 10.0

_AGAIN = 0.3
_GOODBYE = 5.0

_NUMBER = "([0-9]{1,7})"
_PEER = "([0-9a-f.:\\[\\]]{1,64})"
_LINES = {
    "alive": re.compile(""),
    "start": re.compile(f"{_NUMBER} {_NUMBER}"),
    "dismiss": re.compile(_NUMBER),
    "forgive": re.compile(_NUMBER),
    "publish": re.compile(f"{_NUMBER} {_NUMBER} ([^ ]+) ([0-9]{{1,7}}(?:,[0-9]{{1,7}})*) ?(.*)"),
    "renew": re.compile(f"{_NUMBER} ([0-9]{{1,7}}(?:,[0-9]{{1,7}})*)"),
    "proposed": re.compile(_NUMBER),
    "refused": re.compile(f"{_NUMBER} (.*)"),
    "failed": re.compile(f"{_PEER} (.*)"),
    "left": re.compile(_PEER),
    "warn": re.compile("([0-9]{1,2})"),
    "end": re.compile("([0-9]{1,2}) ([0-9]{1,3})"),
    "over": re.compile(f"([0-9]{{1,3}}) {_NUMBER} ([01])"),
}


class Follower:
    """The Director of a host that does not lead: forwards reports, and carries out decisions.

    Args:
        cluster: The cluster with which the job starts.
        own: This host's runner.
        link: How it reaches the leader.
        say: Prints a line for the user.
        outlive: Called when the leader is gone, if another one may lead then: `turn_to` names it.

    Attributes:
        leader: The address of the leader.
        knowledge: What another leader has to know.
    """

    def __init__(
        self,
        cluster: Cluster,
        own: Host,
        link: Link,
        *,
        say: Callable[[str], None],
        outlive: Callable[[], None] | None = None,
    ) -> None:
        self.code = 0
        self.again: int | None = None
        self.recovering = False
        self.early_failure: int | None = None  # the one that leads knows it
        self.over = False
        self.size = len(cluster.peers)
        self.leader = cluster.hosts[0].address
        self.knowledge = Knowledge()
        self._port = link.port
        self._outlive = outlive
        self._is_orphan = self._is_ending = False
        self._own = own
        self._here = cluster.here
        self._credentials = link.credentials
        self._say = say
        self._began = self._beat = self._next_try = time.monotonic()
        self._deadline = self._began + COMING_DEADLINE
        self._asking: Asking | None = None  # a handshake is under way
        self._helloed = False
        self._connection: Connection | None = None
        self._waiting: list[str] = []  # lines that wait for the leader
        self._questions: dict[int, collections.deque[Answer]] = {}
        self._connections = Connections(
            None,
            link.selector,
            most_strangers=1,
            deadline=HANDSHAKE_DEADLINE,
            readable=self._read,
            closed=self._closed,
        )

    def started(self, number: int, peer: str) -> None:
        self._tell(f"started {number} {peer}")

    def ready(self, number: int) -> None:
        self._tell(f"ready {number}")

    def entered(self, number: int, version: int) -> None:
        self._tell(f"entered {number} {version}")

    def broken(self, number: int, version: int) -> None:
        self._tell(f"broken {number} {version}")

    def propose(self, number: int, size: int | None, answer: Answer) -> None:
        self._ask("propose", number, answer, "" if size is None else f" {size}")

    def notice(self, number: int, answer: Answer) -> None:
        self._ask("notice", number, answer)

    def leave(self, number: int, answer: Answer) -> None:
        self._ask("leave", number, answer)

    def ended(self, number: int, code: int, *, stopped: bool) -> None:
        self.knowledge.ended[number] = code, stopped
        self._tell(_ended(number, code, stopped))

    def warned(self, signum: int, times: int) -> None:
        self._tell(f"warned {signum} {times}")

    def stop_all(self, first: int, code: int) -> None:
        if not self.over:
            self._is_ending = True
            self._own.stop_all(first, code)
            self._tell(f"end {first} {code}")
            # A leader that has not come yet may never come. It gets this line if it comes soon.
            self._deadline = min(self._deadline, time.monotonic() + _GOODBYE)

    def turn_to(self, leader: IPAddress) -> None:
        """Reports to another leader from now on, which gets to know what this one knows."""
        knowledge = self.knowledge
        self.leader, self._is_orphan = leader, False
        self._began = self._next_try = time.monotonic()
        self._deadline = self._began + TURNING_DEADLINE
        ends = [_ended(number, *end) for number, end in knowledge.ended.items()]
        others = [line for line in self._waiting if line not in ends]
        newest = f"heard {knowledge.version} {','.join(knowledge.peers) or '-'}"
        self._waiting = [*ends, newest, *others]

    def give_up(self, how: str) -> None:
        """Ends the job on this host: its leader is gone, and there is no other one."""
        self._lost(how)

    @property
    def outlives(self) -> bool:
        return self._connection is not None and not self._is_ending

    @property
    def due(self) -> float:
        waits = self._connection is None and not (self.over or self._is_orphan)
        return self._next_try if waits else math.inf

    def advance(self) -> None:
        now = time.monotonic()
        self._connections.drop_slow()
        if self.over or self._is_orphan:
            return
        if self._connection is not None:
            if now >= self._beat:
                self._beat = now + BEAT
                if now - self._connection.heard > SILENT or is_gone(self._connection.socket):
                    self._connections.close(self._connection)
                else:
                    self._tell("alive")
        elif now > self._deadline:
            self._lost(f"cannot be reached since {now - self._began:.0f} s")
        elif not self._connections.all and now >= self._next_try:
            self._next_try = now + _AGAIN
            self._connect()

    def close(self) -> None:
        self.over = True
        self._connections.close_all()

    def _connect(self) -> None:
        address = self.leader
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        connecting = socket.socket(family, socket.SOCK_STREAM)
        connecting.setblocking(False)
        keep_alive(connecting)
        # The other side sends first. If no runner listens there, the first read fails.
        connecting.connect_ex((str(address), self._port))
        self._asking, self._helloed = None, False
        self._connections.add(connecting)

    def _read(self, connection: Connection) -> None:
        self._connections.read_lines(connection, LONGEST_LINE, self._take)

    def _take(self, connection: Connection, line: str) -> bool:
        if self.over:
            return False
        if self._connection is None:
            return self._shake_hands(connection, line)
        command, _, rest = line.partition(" ")
        match = _LINES[command].fullmatch(rest) if command in _LINES else None
        return match is not None and self._obey(command, *match.groups())

    def _shake_hands(self, connection: Connection, line: str) -> bool:
        if self._asking is None:
            self._asking = Asking(self._credentials, str(self._here))
            hello = self._asking.hello(line)
            if hello is None:
                self._lost("is none, or of another version: the process there does not greet")
                return False
            self._helloed = True
            self._connections.send(connection, hello.encode() + b"\n")
            return True
        if not self._asking.welcomed(line):
            self._lost("does not know the secret of this one")
            return False
        connection.known = True
        self._connection = connection
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._tell(one)
        return True

    def _obey(
        self,
        command: str,
        first: str = "",
        second: str = "",
        third: str = "",
        fourth: str = "",
        fifth: str = "",
    ) -> bool:
        if command in ("failed", "left"):
            self._own.finished(first) if command == "left" else self._own.failed(first, second)
        elif command == "alive":
            self._tell("alive")
        elif command == "start":
            self._own.start(int(first), int(second))
        elif command == "dismiss":
            self._own.dismiss(int(first))
        elif command == "forgive":
            self._own.forgive(int(first))
        elif command == "warn":
            if is_warning := int(first) in WARNING:
                self._own.warn(int(first))
            return is_warning
        elif command == "publish":
            peers = [] if third == "-" else third.split(",")
            self.size = len(peers)
            told = _numbers(fourth)
            self.knowledge.hear(int(first), peers)
            self._own.publish(int(first), int(second), peers, told, fifth)
        elif command == "renew":
            self._own.renew(int(first), _numbers(second))
        elif command in ("proposed", "refused"):
            return self._answer(int(first), None if command == "proposed" else second)
        elif command == "end":
            self.code, self._is_ending = int(second), True
            self._own.stop_all(int(first), self.code)
        elif command == "over":
            self.code = self.code or int(first)
            self.again = int(second) or None
            self.recovering = third == "1"
            self.over = True
            return False  # the leader waits for the end of the connection
        return True

    def _ask(self, what: str, number: int, answer: Answer, more: str = "") -> None:
        self._questions.setdefault(number, collections.deque()).append(answer)
        self._tell(f"{what} {number}{more}")

    def _answer(self, number: int, refusal: str | None) -> bool:
        questions = self._questions.get(number)
        if not questions:
            return False
        questions.popleft()(refusal)
        return True

    def _tell(self, line: str) -> None:
        if self._connection is None:
            if not self.over:
                self._waiting.append(line)
        else:
            self._connections.send(self._connection, line.encode() + b"\n")

    def _closed(self, connection: Connection) -> None:
        if connection is self._connection:
            self._connection = None
            if self._outlive is None or self._is_ending or self.over:
                self._lost("is gone")
            else:
                self._refuse_questions()
                self._is_orphan = True
                self._outlive()
        elif self._helloed:
            why = (
                "does not take in this one: KUNGFU_SECRET or the command lines differ, or it is"
                " another job's"
            )
            self._lost(errors.linked("not-taken-in", why))

    def _refuse_questions(self) -> None:
        """Nobody answers those that the leader has not."""
        questions, self._questions = self._questions, {}
        for waiting in questions.values():
            for answer in waiting:
                answer("the runner that leads the job is gone")

    def _lost(self, how: str) -> None:
        if self.over:
            return
        self.over, self.code = True, LOST
        self._say(f"the job ends: the runner that leads it ({self.leader} port {self._port}) {how}")
        self._own.stop_all(0, LOST)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _ended(number: int, code: int, stopped: bool) -> str:
    return f"ended {number} {code} {int(stopped)}"
