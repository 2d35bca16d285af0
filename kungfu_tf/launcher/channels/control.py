"""The control connection between the runner and each of its peers, over a Unix socket.

UTF-8 lines that end in a newline and have at most 64 KiB before it; a <peer> is its KUNGFU_SELF:

  peer -> runner   hello <peer> <pid>          first of all, within 5 s
                   alive                       every second
                   begun                       an operation of its program has succeeded; once
                   report <text>               an error that this peer saw
                   ready                       a newcomer asks to be taken in
                   entered <version>           this peer has gone over to a membership
                   propose [<size>]            asks for another number of peers, or for the one that
                                               the config server says
                   notice                      has got SIGTERM: asks whether it may leave, and the
                                               others go on
                   leave                       is between two steps, and leaves
                   broken <version>            a connection with a peer of that membership has ended
                                               without a goodbye; both may live
  anybody, first of all
                   resize <size>               a person asks for another number of peers; the
                                               answer is a line, proposed <text> or refused <text>,
                                               and the end
  runner -> peer   failed <peer> <text>        that peer has failed
                   left <peer>                 that peer has finished
                   members <version> <since> <peers>
                                               the peers that take part from now on; "-": none.
                                               The list replaces those of the versions from <since>
                                               on, in which no peers have met; <since> is <version>
                                               where it replaces none
                   survivors <version> <since> <peers> <text>
                                               the peers that are left, after others were lost: they
                                               go on at once, and repeat what they had begun; why.
                                               <since> is that of the newest members
                   anew <version>              before such a line of that version: the peers make
                                               all connections with each other anew
                   proposed | refused <text>   the answer to the oldest question; a peer that
                                               leaves has got the list of the others before

Before a correct hello no other line is accepted. The sender of any other line loses its connection,
and no other peer is affected.
"""

import collections
import dataclasses
import os
import re
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kungfu_tf.links.connections import Connection, Connections

LONGEST_LINE = 64 << 10
HELLO_DEADLINE = 5.0
MOST_STRANGERS = 64
MOST_REPORTS = 8
EARLIER = 30.0  # seconds: an error that a peer has survived so long did not end it

_HELLO = re.compile(r"hello ([^ ]{1,64}) ([0-9]{1,10})")
_RESIZE = re.compile(r"resize ([0-9]{1,7})")
_NUMBER = re.compile(r"[0-9]{1,7}")


Answer = Callable[[str | None], None]


class Handler(Protocol):
    """Decides on the membership. Peers are known by their numbers in the job."""

    def ready(self, rank: int) -> None:
        """A newcomer can be taken in."""

    def entered(self, rank: int, version: int) -> None:
        """A peer has gone over to a membership."""

    def broken(self, rank: int, version: int) -> None:
        """A connection of a peer with another one of that membership has broken."""

    def propose(self, rank: int, size: int | None, answer: Answer) -> None:
        """A peer asks for a number of peers; None: for the number that the config server says.

        `answer` is called once, now or later, with the reason of a refusal, or None.
        """

    def notice(self, rank: int, answer: Answer) -> None:
        """A peer has got SIGTERM, and asks whether it may leave."""

    def leave(self, rank: int, answer: Answer) -> None:
        """A peer leaves, between two steps."""


class Report(NamedTuple):
    """An error that a peer saw, and when."""

    text: str
    at: float


@dataclasses.dataclass
class Contact:
    """What is known of a peer from its connection. Times are those of time.monotonic().

    Attributes:
        connected: Whether it is connected.
        heard: When it was heard last.
        lost: When its connection ended.
        has_begun: Whether an operation of its program has succeeded.
        leaving: Whether it was told that the others go on without it.
        reports: The errors that it has reported.
    """

    connected: bool = False
    heard: float | None = None
    lost: float | None = None
    has_begun: bool = False
    leaving: bool = False
    reports: list[Report] = dataclasses.field(default_factory=list)

    def keep(self, report: Report) -> None:
        """Keeps a report. Of those that may be the cause of the peer's end it keeps the first."""
        if len(self.reports) == MOST_REPORTS:
            self.reports = [one for one in self.reports if report.at - one.at <= EARLIER]
        if len(self.reports) < MOST_REPORTS:
            self.reports.append(report)


@dataclasses.dataclass
class _Question:
    """A question of a peer, and the line that answers it, once that is known."""

    answer: bytes | None = None


class ControlServer:
    """The runner's side of the control connections. Used by the event loop's thread only.

    Args:
        path: The path of the socket, in a directory that only this user may enter.
        peers: The names of this host's peers by their ranks. A hello of any other is refused.
        selector: The selector of the event loop. A key's data is called with the events of its
            file.
        handler: Decides on the membership; None: it does not change.
        order: Takes a person's request for a number of peers. Returns whether it is accepted, and a
            text for the person.
        hello_deadline: Seconds within which a connection must say hello.
    """

    def __init__(
        self,
        path: str,
        peers: Mapping[int, str],
        selector: selectors.BaseSelector,
        *,
        handler: Handler | None = None,
        order: Callable[[int], tuple[bool, str]] | None = None,
        hello_deadline: float = HELLO_DEADLINE,
    ) -> None:
        self.contacts = {rank: Contact() for rank in peers}
        self._names = dict(peers)
        self._handler = handler
        self._order = order
        self._ranks: dict[Connection, int] = {}
        self._questions: dict[Connection, collections.deque[_Question]] = {}
        self._announced: list[tuple[str, bytes]] = []
        self._anew: dict[int, bytes] = {}  # the newest of these lines, by the peer that was told
        self._members: dict[int, bytes] = {}  # the newest list, in the same way
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(128)
        self._connections = Connections(
            listener,
            selector,
            most_strangers=MOST_STRANGERS,
            deadline=hello_deadline,
            readable=self._read,
            closed=self._lost,
            admit=lambda accepted: _user_of(accepted) in (os.geteuid(), 0),
        )

    def add(self, rank: int, name: str) -> None:
        """Expects the hello of one more peer."""
        self.contacts[rank] = Contact()
        self._names[rank] = name

    def announce_failed(self, peer: str, text: str) -> None:
        """Tells every other peer, also one that connects later, that `peer` has failed."""
        self._announce(peer, f"failed {peer} {one_line(text)}")

    def announce_finished(self, peer: str) -> None:
        """Tells every other peer that `peer` has finished, so that none waits for it."""
        self._announce(peer, f"left {peer}")

    def announce_members(
        self, version: int, since: int, peers: Sequence[str], told: Iterable[int], lost: str = ""
    ) -> None:
        """Tells some peers which peers take part, also those that connect later.

        Args:
            version: The version of the list.
            since: The first version of its change.
            peers: The peers that take part.
            told: The ranks of those that are told.
            lost: Who was lost, and how, if they go on at once without others.
        """
        command, text = ("survivors", f" {one_line(lost)}") if lost else ("members", "")
        line = f"{command} {version} {since} {','.join(peers) or '-'}{text}\n".encode()
        for rank in told:
            self.contacts[rank].leaving = self._names[rank] not in peers
            self._members[rank] = line
        for connection, rank in list(self._ranks.items()):
            if self._members.get(rank) == line:
                self._connections.send(connection, line)

    def renew(self, version: int, told: Iterable[int]) -> None:
        """Tells some peers to make their connections anew with the next list, of that version."""
        line = f"anew {version}\n".encode()
        self._anew.update(dict.fromkeys(told, line))
        for connection, rank in list(self._ranks.items()):
            if self._anew.get(rank) == line:
                self._connections.send(connection, line)

    def _announce(self, peer: str, text: str) -> None:
        line = text.encode()[:LONGEST_LINE].decode(errors="ignore").encode() + b"\n"
        self._announced.append((peer, line))
        for connection in list(self._ranks):
            self._tell(connection, [(peer, line)])

    def drain(self, rank: int) -> None:
        """Reads the last lines of a peer that has ended, even if it has connected only just now."""
        while (newest := self._connections.accept()) is not None:
            self._read(newest)
        for connection in list(self._connections.all):
            if self._ranks.get(connection, rank) == rank:
                self._read(connection)

    def drop_strangers(self) -> None:
        """Closes connections that have not said hello in time. To be called now and then."""
        self._connections.drop_slow()

    def close(self) -> None:
        self._connections.close_all()

    def _read(self, connection: Connection) -> None:
        self._connections.read_lines(connection, LONGEST_LINE, self._handle)

    def _handle(self, connection: Connection, line: str) -> bool:
        """Handles a line. Returns False if it breaks the protocol."""
        if connection not in self._ranks:
            order = _RESIZE.fullmatch(line)
            return self._resize(connection, order[1]) if order else self._hello(connection, line)
        rank = self._ranks[connection]
        contact = self.contacts[rank]
        contact.heard = time.monotonic()
        if line == "alive":
            return True
        if line == "begun":
            contact.has_begun = True
            return True
        command, space, text = line.partition(" ")
        if command == "report" and space:
            contact.keep(Report(one_line(text), contact.heard))
            return True
        return self._handler is not None and self._membership(connection, rank, command, text)

    def _membership(self, connection: Connection, rank: int, command: str, text: str) -> bool:
        """Handles a line about the membership. Returns False if it is none."""
        assert self._handler is not None
        if command == "ready" and not text:
            self._handler.ready(rank)
        elif command == "entered" and _NUMBER.fullmatch(text):
            self._handler.entered(rank, int(text))
        elif command == "broken" and _NUMBER.fullmatch(text):
            self._handler.broken(rank, int(text))
        elif command == "propose" and _NUMBER.fullmatch(text.removeprefix("-") or "0"):
            size = int(text) if text else None
            self._handler.propose(rank, size, self._answer_to(connection))
        elif command == "notice" and not text:
            self._handler.notice(rank, self._answer_to(connection))
        elif command == "leave" and not text:
            self._handler.leave(rank, self._answer_to(connection))
        else:
            return False
        return True

    def _answer_to(self, connection: Connection) -> Answer:
        """What takes the answer to a question. Answers are sent in the order of the questions."""
        question = _Question()
        questions = self._questions.setdefault(connection, collections.deque())
        questions.append(question)

        def answer(refusal: str | None) -> None:
            text = "proposed" if refusal is None else f"refused {one_line(refusal)}"
            question.answer = text.encode() + b"\n"
            while questions and questions[0].answer is not None:
                line = questions.popleft().answer
                assert line is not None
                self._connections.send(connection, line)

        return answer

    def _hello(self, connection: Connection, line: str) -> bool:
        match = _HELLO.fullmatch(line)
        known = [rank for rank, name in self._names.items() if match and name == match[1]]
        if not known or self.contacts[known[0]].connected:
            return False
        rank = known[0]
        contact = self.contacts[rank]
        self._ranks[connection] = rank
        connection.known = True
        contact.connected, contact.heard, contact.lost = True, time.monotonic(), None
        self._tell(connection, self._announced)
        for lines in (self._anew, self._members):
            if rank in lines:
                self._connections.send(connection, lines[rank])
        return True

    def _resize(self, connection: Connection, size: str) -> bool:
        done, text = False, "this runner does not decide on the job's size"
        if self._order is not None:
            done, text = self._order(int(size))
        line = f"{'proposed' if done else 'refused'} {one_line(text)}\n"
        self._connections.send(connection, line.encode())
        return False

    def _tell(self, connection: Connection, news: Sequence[tuple[str, bytes]]) -> None:
        name = self._names[self._ranks[connection]]
        lines = [line for peer, line in news if peer != name]
        if lines:
            self._connections.send(connection, b"".join(lines))

    def _lost(self, connection: Connection) -> None:
        self._questions.pop(connection, None)
        rank = self._ranks.pop(connection, None)
        if rank is not None:
            contact = self.contacts[rank]
            contact.connected, contact.lost = False, time.monotonic()


def _user_of(accepted: socket.socket) -> int:
    size = struct.calcsize("3i")
    _pid, uid, _gid = struct.unpack(
        "3i", accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return int(uid)


def one_line(text: str) -> str:
    """The text without characters that could end a line or control a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
