"""From the peers' bytes to the lines of a terminal, a pipe and files."""

import fcntl
import math
import os
import pty
import select
import signal
import struct
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kungfu_tf.launcher.channels.signals import SignalPipe
from kungfu_tf.launcher.output import lines
from kungfu_tf.launcher.output.job_output import Output, Screen
from kungfu_tf.launcher.output.lines import LineAssembler, Piece
from kungfu_tf.launcher.output.output_wait import OutputWait
from kungfu_tf.launcher.output.sink import Sink


def assemble(*chunks: bytes) -> list[Piece]:
    assembler = LineAssembler()
    return [piece for chunk in chunks for piece in assembler.feed(chunk)] + assembler.finish()


def final(*chunks: bytes) -> list[str]:
    return [piece.text for piece in assemble(*chunks) if piece.final]


def test_lines_are_the_same_however_the_bytes_are_cut() -> None:
    data = b"one\r\ntwo\n\n 10%\r 20%\r\r 30%\nthr\xc3\xa9e\nend"
    whole = assemble(data)
    assert [piece.text for piece in whole if piece.final] == [
        "one",
        "two",
        "",
        " 30%",
        "thrée",
        "end",
    ]
    assert [piece.text for piece in whole if not piece.final] == [" 10%", " 20%"]
    for size in range(1, 8):
        assert assemble(*(data[i : i + size] for i in range(0, len(data), size))) == whole


def test_a_last_line_without_an_end_is_a_line() -> None:
    assert final(b"a\nb") == ["a", "b"]
    assert final(b"100%\r") == ["100%"]
    assert final(b"a\n") == ["a"]
    assert final(b"") == []


def test_backspaces_and_bytes_that_are_not_utf8() -> None:
    assert final(b"1/2\b\b\b\r2/2\n") == ["2/2"]
    assert assemble(b"1/2\b\b\b\r2/2\n")[0] == Piece("1/2", final=False)
    assert final(b"\xff\xfe ok\n") == ["\ufffd\ufffd ok"]


def test_long_lines_are_cut_between_characters_and_nothing_is_lost() -> None:
    text = "é" * lines.LONGEST
    pieces = final(text.encode() + b"\nnext\n")
    assert "".join(pieces[:-1]) == text
    assert pieces[-1] == "next"
    assert max(len(piece.encode()) for piece in pieces) <= lines.LONGEST
    assembler = LineAssembler()
    for _ in range(40):
        assembler.feed(b"x" * lines.LONGEST)
    assert len(assembler._pending) <= lines.LONGEST


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            continue


def test_a_pipe_gets_whole_lines_and_only_the_last_state_of_a_bar(pipe: tuple[int, int]) -> None:
    screen = Screen(Sink(pipe[1]))
    screen.write("[0] ", 36, Piece(" 10%", final=False))
    screen.write("[1] ", 33, Piece("other", final=True))
    screen.write("[0] ", 36, Piece("100%", final=True))
    screen.finish()
    assert os.read(pipe[0], 4096) == b"[1] other\n[0] 100%\n"


def test_a_full_pipe_does_not_block_and_loses_nothing(pipe: tuple[int, int]) -> None:
    sink = Sink(pipe[1])
    data = b"".join(b"line %d\n" % i for i in range(200_000))
    sink.put(data)
    assert sink.waiting
    assert sink.congested
    received = b""
    while sink.waiting:
        received += os.read(pipe[0], 1 << 20)
        sink.pump()
    received += os.read(pipe[0], 1 << 20)
    assert received == data
    assert not sink.congested


def test_each_write_ends_with_a_line(
    monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int]
) -> None:
    written: list[bytes] = []
    write: Callable[[int, bytes], int] = os.write
    monkeypatch.setattr(
        os, "write", lambda fd, data: written.append(bytes(data)) or write(fd, data)
    )
    Sink(pipe[1]).put(b"x" * 3000 + b"\n" + b"y" * 3000 + b"\n" + b"z\n" * 500)
    assert all(data.endswith(b"\n") for data in written)
    assert len(written) == 2


def test_a_reader_that_went_away_ends_the_output_only(pipe: tuple[int, int]) -> None:
    sink = Sink(pipe[1])
    os.close(pipe[0])
    sink.put(b"line\n")
    assert sink.error == "Broken pipe"
    assert not sink.waiting
    sink.put(b"more\n")
    assert not sink.waiting


class Terminal:
    """A pseudo terminal of 40 columns."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))

    def shows(self, text: str) -> None:
        """Asserts what comes next."""
        data = b""
        while len(data) < len(text) and select.select([self.master], [], [], 20)[0]:
            data += os.read(self.master, len(text) - len(data))
        assert data.decode() == text
        assert not select.select([self.master], [], [], 0)[0]

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    yield terminal
    terminal.close()


def test_on_a_terminal_a_bar_is_rewritten_in_its_place(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen(Sink(terminal.slave))
    screen.write("[0] ", 36, Piece(" 10%", final=False))
    terminal.shows("[0]  10%")
    screen.write("[0] ", 36, Piece(" 20%", final=False))
    terminal.shows("\r\x1b[K[0]  20%")
    screen.write("[1] ", 33, Piece("hello", final=True))
    terminal.shows("\r\x1b[K[1] hello\r\n")
    screen.write("[0] ", 36, Piece("=" * 100, final=False))
    terminal.shows("[0] " + "=" * 35)
    screen.finish()
    terminal.shows("\r\n")


def test_on_a_terminal_a_line_is_seen_before_it_ends(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    output = Output({0: "[0] ", 1: "[1] "}, descriptors=(terminal.slave, terminal.slave))
    output.feed(0, "stderr", b" 10%\r")
    terminal.shows("[0]  10%")
    output.feed(0, "stderr", b" 20%")
    terminal.shows("\r\x1b[K[0]  20%")
    output.feed(1, "stdout", b"hello\n")
    terminal.shows("\r\x1b[K[1] hello\r\n")
    output.feed(0, "stderr", b" done\n")
    output.finish()
    terminal.shows("[0]  20% done\r\n")


def test_a_terminal_that_does_not_say_how_wide_it_is(terminal: Terminal) -> None:
    fcntl.ioctl(terminal.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
    Screen(Sink(terminal.slave)).write("[0] ", None, Piece("=" * 100, final=False))
    terminal.shows("[0] " + "=" * 75)


def test_on_a_terminal_each_rank_has_its_colour(terminal: Terminal) -> None:
    screen = Screen(Sink(terminal.slave))
    screen.write("[0] ", 36, Piece("plain", final=True))
    screen.write("[1] ", 33, Piece("\x1b[1mbold", final=True))
    terminal.shows("\x1b[36m[0] \x1b[0mplain\r\n\x1b[33m[1] \x1b[0m\x1b[1mbold\x1b[0m\r\n")


def test_streams_files_and_last_lines(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    logfile, logdir = tmp_path / "all.log", tmp_path / "logs"
    output = Output({0: "[0] ", 1: "[1] "}, logfile=str(logfile), logdir=str(logdir))
    output.feed(0, "stdout", b"a\r\xff\npar")
    output.feed(1, "stderr", b"problem\n")
    output.feed(0, "stdout", b"tial")
    output.feed(0, "stdout", b"")
    output.say("done")
    output.finish()
    assert capfd.readouterr() == ("[0] \ufffd\n[0] partial\n", "[1] problem\nkungfu-run: done\n")
    assert logfile.read_text() == ("[0] \ufffd\n[1] problem\n[0] partial\nkungfu-run: done\n")
    assert (logdir / "rank-0.stdout.log").read_bytes() == b"a\r\xff\npartial"
    assert (logdir / "rank-1.stderr.log").read_bytes() == b"problem\n"
    assert output.last_lines(0) == ["\ufffd", "partial"]


def test_quiet_keeps_what_matters(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = Output({0: "[0] "}, quiet=True, logfile=str(tmp_path / "all.log"))
    output.feed(0, "stdout", b"chatter\n")
    output.say("chatter")
    output.say("the summary", always=True)
    output.finish()
    assert capfd.readouterr() == ("", "kungfu-run: the summary\n")
    assert (tmp_path / "all.log").read_text().startswith("[0] chatter\n")
    assert output.last_lines(0) == ["chatter"]


def test_a_full_disk_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    output = Output({0: "[0] "}, logfile="/dev/full")
    output.feed(0, "stdout", b"one\ntwo\n")
    output.feed(0, "stdout", b"three\n")
    out, err = capfd.readouterr()
    assert out == "[0] one\n[0] two\n[0] three\n"
    assert err == "kungfu-run: a log file is no longer written: No space left on device\n"


@pytest.mark.parametrize(("ended_with", "code"), [(0, 124), (7, 7)])
def test_after_the_jobs_time_nobody_waits_for_a_reader(ended_with: int, code: int) -> None:
    said: list[str] = []
    reader, writer = os.pipe()
    output = Output({0: "[0] "}, descriptors=(writer, writer))
    output.feed(0, "stdout", b"x\n" * 100_000)
    with SignalPipe() as signals:
        wait = OutputWait(
            ended_with, ending=False, signals=signals, time_limit=0.0, grace=0.0, say=said.append
        )
        output.finish(wait.over)
    assert wait.code == code
    assert said == ["-timeout: output that is not read within 0 s is dropped"]
    assert not output.sinks[0].waiting
    os.close(writer)
    os.close(reader)


def test_a_second_signal_waits_for_no_reader_at_all() -> None:
    reader, writer = os.pipe()
    output = Output({0: "[0] "}, descriptors=(writer, writer))
    output.feed(0, "stdout", b"x\n" * 100_000)
    with SignalPipe() as signals:
        wait = OutputWait(
            0, ending=False, signals=signals, time_limit=math.inf, grace=3600.0, say=str
        )
        assert not wait.over()
        os.kill(os.getpid(), signal.SIGTERM)
        assert not wait.over()
        os.kill(os.getpid(), signal.SIGTERM)
        output.finish(wait.over)
    assert wait.code == 143
    os.close(writer)
    os.close(reader)
