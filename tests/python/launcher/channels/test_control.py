"""The control connection, over real sockets, with peers that keep to the protocol and others."""

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kungfu_tf.launcher.channels import control, event_turn
from kungfu_tf.launcher.channels.control import ControlServer

DEADLINE = 60.0
NAMES = {rank: f"127.0.0.1:1000{rank}" for rank in (4, 5, 6)}


class Runner:
    """A control server and the loop that drives it, on the test's own thread."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = str(path / "control.sock")
        self.selector = selectors.PollSelector()
        self.server = ControlServer(self.path, NAMES, self.selector, **options)

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true"
            event_turn.take(self.selector, self.selector.select(0.05))

    def connect(self, opening: bytes = b"") -> socket.socket:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(DEADLINE)
        peer.connect(self.path)
        peer.sendall(opening)
        return peer

    def hello(self, rank: int) -> socket.socket:
        peer = self.connect(f"hello {NAMES[rank]} {os.getpid()}\n".encode())
        self.until(lambda: self.server.contacts[rank].connected)
        return peer

    def is_closed(self, peer: socket.socket) -> bool:
        """Whether the runner has closed the connection, after it has handled what there was."""
        result: list[bytes] = []
        reader = threading.Thread(target=lambda: result.append(_receive(peer)))
        reader.start()
        self.until(lambda: not reader.is_alive())
        return result == [b""]


def _receive(peer: socket.socket) -> bytes:
    try:
        return peer.recv(4096)
    except ConnectionResetError:
        return b""


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    runner = Runner(tmp_path)
    yield runner
    runner.server.close()
    runner.selector.close()


def texts(contact: control.Contact) -> list[str]:
    return [report.text for report in contact.reports]


def test_a_peer_says_who_it_is_that_it_lives_and_what_it_saw(runner: Runner) -> None:
    contact = runner.server.contacts[5]
    with runner.hello(5) as peer:
        first = contact.heard
        assert first is not None
        peer.sendall(b"ali")
        peer.sendall("ve\nreport all_reduce 'é': reset\x1b[2J\n".encode())
        peer.sendall(b"report cut inside \xc3\n")
        runner.until(lambda: len(contact.reports) == 2)
        assert texts(contact) == ["all_reduce 'é': reset [2J", "cut inside \ufffd"]
        assert contact.heard is not None
        assert contact.heard >= first
    runner.until(lambda: not contact.connected)
    assert contact.lost is not None


def test_a_failure_is_told_to_all_others_also_to_one_that_comes_later(runner: Runner) -> None:
    with runner.hello(4) as failed, runner.hello(5) as other, runner.connect() as stranger:
        runner.server.announce_failed(NAMES[4], "killed by SIGKILL")
        assert other.recv(4096) == b"failed 127.0.0.1:10004 killed by SIGKILL\n"
        for uninformed in (failed, stranger):
            uninformed.setblocking(False)
            with pytest.raises(BlockingIOError):
                uninformed.recv(4096)
        runner.server.announce_failed(NAMES[5], "exit code 1")
        with runner.hello(6) as late:
            told = b""
            while told.count(b"\n") < 2:
                told += late.recv(4096)
            assert told == (
                b"failed 127.0.0.1:10004 killed by SIGKILL\nfailed 127.0.0.1:10005 exit code 1\n"
            )


def test_who_takes_part_is_told_to_some_also_to_one_that_comes_later(runner: Runner) -> None:
    with runner.hello(4) as peer, runner.hello(5) as other:
        runner.server.announce_members(3, 2, [NAMES[4], NAMES[6]], [4, 6])
        line = b"members 3 2 127.0.0.1:10004,127.0.0.1:10006\n"
        assert peer.recv(4096) == line
        with runner.hello(6) as late:
            assert late.recv(4096) == line
        runner.server.announce_members(4, 4, [], [5])
        assert other.recv(4096) == b"members 4 4 -\n"


def test_survivors_are_told_also_one_that_comes_later(runner: Runner) -> None:
    line = b"survivors 2 1 127.0.0.1:10004,127.0.0.1:10006 rank 1 was lost\n"
    with runner.hello(4) as peer:
        runner.server.announce_members(2, 1, [NAMES[4], NAMES[6]], [4, 6], "rank 1 was\nlost")
        assert peer.recv(4096) == line
        with runner.hello(6) as late:
            assert late.recv(4096) == line


def test_who_was_told_of_others_only_was_let_go(runner: Runner) -> None:
    contacts = runner.server.contacts
    assert not any(contact.leaving for contact in contacts.values())
    runner.server.announce_members(1, 1, [NAMES[4]], [4, 5])
    assert [contacts[rank].leaving for rank in (4, 5, 6)] == [False, True, False]


def test_the_others_are_told_who_has_ended_well(runner: Runner) -> None:
    with runner.hello(4), runner.hello(5) as other:
        runner.server.announce_finished(NAMES[4])
        assert other.recv(4096) == b"left 127.0.0.1:10004\n"


def test_an_announcement_is_one_line_of_bounded_length(runner: Runner) -> None:
    with runner.hello(5) as peer:
        runner.server.announce_failed(NAMES[4], "one\ntwo " + "é" * 50000)
        line = b""
        while not line.endswith(b"\n"):
            line += peer.recv(4096)
    assert line.startswith(b"failed 127.0.0.1:10004 one two ")
    assert len(line) <= control.LONGEST_LINE + 1
    line.decode()


@pytest.mark.parametrize(
    "opening",
    [
        b"hello 127.0.0.1:10007 1\n",  # not of this host
        b"hello 5 1\n",
        b"hello 127.0.0.1:10005\n",
        b"hello 127.0.0.1:10005 1 2\n",
        b"hello " + b"1" * 100 + b" 1\n",
        b"alive\n",
        b"report before hello\n",
        b"failed 127.0.0.1:10005 forged\n",
        b"update everything\n",
        b"exit\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\n",
        b"\0\0\0\0\n",
        b"\xff\xfe\n",
        b"x" * (control.LONGEST_LINE + 1),
    ],
)
def test_whoever_begins_wrongly_is_dropped_and_believed_nothing(
    runner: Runner, opening: bytes
) -> None:
    with runner.connect(opening) as stranger:
        assert runner.is_closed(stranger)
    assert all(contact.heard is None for contact in runner.server.contacts.values())
    assert all(not contact.reports for contact in runner.server.contacts.values())
    with runner.hello(5):
        pass


@pytest.mark.parametrize(
    "line",
    [
        b"exit\n",
        b"update 1\n",
        b"failed 127.0.0.1:10004 forged\n",
        b"hello 127.0.0.1:10005 1\n",
        b"report\n",
        b"ready\n",
        b"\xff\n",
        b"\n",
        b"report " + b"x" * control.LONGEST_LINE + b"\n",
    ],
)
def test_a_peer_that_breaks_the_protocol_loses_its_connection_only(
    runner: Runner, line: bytes
) -> None:
    with runner.hello(4) as other, runner.hello(5) as peer:
        peer.sendall(b"report seen\n" + line)
        assert runner.is_closed(peer)
        assert texts(runner.server.contacts[5]) == ["seen"]
        other.sendall(b"report still here\n")
        runner.until(lambda: runner.server.contacts[4].reports)
        assert runner.server.contacts[4].connected
    with runner.hello(5):
        pass


def test_nobody_takes_the_place_of_a_peer_that_is_connected(runner: Runner) -> None:
    with (
        runner.hello(5) as peer,
        runner.connect(b"hello 127.0.0.1:10005 1\nreport forged\n") as impostor,
    ):
        assert runner.is_closed(impostor)
        peer.sendall(b"report mine\n")
        runner.until(lambda: runner.server.contacts[5].reports)
        assert texts(runner.server.contacts[5]) == ["mine"]


def test_reports_without_end_are_not_kept(runner: Runner) -> None:
    with runner.hello(5) as peer:
        peer.sendall(b"".join(b"report %d\n" % i for i in range(100)))
        peer.shutdown(socket.SHUT_WR)
        runner.until(lambda: not runner.server.contacts[5].connected)
    assert texts(runner.server.contacts[5]) == [str(i) for i in range(control.MOST_REPORTS)]


def test_a_report_is_kept_though_there_were_many_long_before() -> None:
    contact = control.Contact()
    for i in range(10):
        contact.keep(control.Report(str(i), at=float(i)))
    contact.keep(control.Report("last", at=5 + control.EARLIER))
    assert texts(contact) == ["5", "6", "7", "last"]


def test_many_strangers_do_not_keep_a_peer_out(runner: Runner) -> None:
    strangers = []
    for _ in range(2 * control.MOST_STRANGERS):
        strangers.append(runner.connect())
        event_turn.take(runner.selector, runner.selector.select(0))
    with runner.hello(5):
        assert runner.is_closed(strangers[0])
    for stranger in strangers:
        stranger.close()


def test_a_stranger_that_says_nothing_is_dropped_in_time(tmp_path: Path) -> None:
    runner = Runner(tmp_path, hello_deadline=0.0)
    with runner.hello(5), runner.connect() as stranger, runner.hello(6):
        runner.server.drop_strangers()
        assert runner.is_closed(stranger)
        assert runner.server.contacts[5].connected
        runner.server.close()
        runner.selector.close()


def test_what_a_peer_said_last_is_read_when_it_has_ended(runner: Runner) -> None:
    with runner.hello(5) as peer:
        peer.sendall(b"report too late?\n")
    with runner.connect(b"hello 127.0.0.1:10006 1\nreport at once\n"):
        pass  # which nobody has accepted yet
    for rank, said in ((5, "too late?"), (6, "at once")):
        runner.server.drain(rank)
        assert texts(runner.server.contacts[rank]) == [said]
        assert not runner.server.contacts[rank].connected


class Refuses:
    """Decides, and wants no change."""

    def ready(self, rank: int) -> None:
        pass

    def entered(self, rank: int, version: int) -> None:
        pass

    def broken(self, rank: int, version: int) -> None:
        pass

    def propose(self, rank: int, size: int | None, answer: control.Answer) -> None:
        answer("no" * 1000)


def test_who_asks_and_does_not_listen_loses_its_connection_only(tmp_path: Path) -> None:
    runner = Runner(tmp_path, handler=Refuses())
    with runner.hello(4) as other, runner.hello(5) as peer:
        peer.sendall(b"propose 1\n" * 1000)
        runner.until(lambda: not runner.server.contacts[5].connected)
        other.sendall(b"report still here\n")
        runner.until(lambda: runner.server.contacts[4].reports)
    runner.server.close()
    runner.selector.close()
