"""Writes the output of the peers, line by line, to the terminal and to files."""

import collections
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.output.lines import LineAssembler, Piece
from kungfu_tf.launcher.output.sink import Sink

STREAMS = ("stdout", "stderr")

_COLOURS = (36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91)
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|.)")
_CLEAR = "\r\x1b[K"
_COLUMNS = 80  # of a terminal that does not say
_LAST_LINES = 20
_LAST_LINE_LENGTH = 500
_ASK_AGAIN = 0.25  # seconds


class Screen:
    """Writes lines to a sink. On a terminal it also writes updates of the last line."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._terminal = sink.error is None and os.isatty(sink.fileno())
        self._coloured = (
            self._terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        )
        self._update = ""  # the text of the line that updates overwrite

    def write(self, prefix: str, colour: int | None, piece: Piece) -> None:
        if not piece.final and not (self._terminal and piece.text.strip()):
            return
        text = piece.text if piece.final else self._fitted(prefix, piece.text)
        if self._coloured and colour is not None:
            reset = "\x1b[0m" if "\x1b" in text else ""
            line = f"\x1b[{colour}m{prefix}\x1b[0m{text}{reset}"
        else:
            line = prefix + text
        if not piece.final and line == self._update:
            return
        clear = _CLEAR if self._update else ""
        self._update = "" if piece.final else line
        self.sink.put((clear + line + ("\n" if piece.final else "")).encode(errors="replace"))

    def finish(self) -> None:
        """Leaves the terminal at the beginning of a line."""
        if self._update:
            self._update = ""
            self.sink.put(b"\n")

    def _fitted(self, prefix: str, text: str) -> str:
        """An update must stay on one row, or it cannot be overwritten."""
        try:
            columns = os.get_terminal_size(self.sink.fileno()).columns
        except OSError:
            columns = 0
        room = (columns or _COLUMNS) - len(prefix) - 1
        plain = _ESCAPE.sub("", text)
        return text if len(plain) <= room else plain[: max(room, 0)]


class Output:
    """All output of a job. Used by the launcher's only thread.

    Attributes:
        sinks: The descriptors that it goes to. Some may have to wait for their readers.

    Args:
        prefixes: The prefix of each rank's lines.
        known_by: For a rank, the beginning of lines that need no prefix. Default: all need one.
        quiet: Whether the peers' lines are not printed. Files get them nevertheless.
        logfile: A file that gets every line, too.
        logdir: A folder with a file for each rank and stream, which gets the bytes as they come.
        descriptors: Standard output and standard error.
    """

    def __init__(
        self,
        prefixes: dict[int, str],
        *,
        known_by: Mapping[int, str] | None = None,
        quiet: bool = False,
        logfile: str | None = None,
        logdir: str | None = None,
        descriptors: tuple[int, int] = (1, 2),
    ) -> None:
        self._quiet = quiet
        self._known_by = known_by or {}
        self._screens = _screens(*descriptors)
        self._log = None if logfile is None else Screen(_log_sink(Path(logfile)))
        self._folder = None if logdir is None else Path(logdir)
        self._prefixes: dict[int, str] = {}
        self._raw: dict[tuple[int, str], Sink] = {}
        self._assemblers: dict[tuple[int, str], LineAssembler] = {}
        self._last: dict[int, collections.deque[str]] = {}
        self._broken_logs: set[int] = set()
        self._logs = [] if self._log is None else [self._log.sink]
        screens = {id(screen.sink): screen.sink for screen in self._screens.values()}
        self.sinks = [*screens.values(), *self._logs]
        for rank, prefix in prefixes.items():
            self.add(rank, prefix)

    def add(self, rank: int, prefix: str) -> None:
        """Adds a peer with the prefix of its lines, or one that is started anew."""
        known = rank in self._prefixes
        self._prefixes[rank] = prefix
        self._last[rank] = collections.deque(maxlen=_LAST_LINES)
        raw = {} if self._folder is None or known else _raw_sinks(self._folder, rank)
        for stream in STREAMS:
            self._assemblers[rank, stream] = LineAssembler()
        self._raw |= raw
        self._logs += raw.values()
        self.sinks += raw.values()

    def sinks_of(self, rank: int, stream: str) -> list[Sink]:
        """Returns the sinks that get a stream of a peer."""
        logs = [] if self._log is None else [self._log.sink]
        raw = [self._raw[rank, stream]] if (rank, stream) in self._raw else []
        return [self._screens[stream].sink, *logs, *raw]

    def feed(self, rank: int, stream: str, data: bytes) -> None:
        """Takes bytes that a peer has written; no bytes at the end of the stream."""
        assembler = self._assemblers[rank, stream]
        if (rank, stream) in self._raw:
            self._raw[rank, stream].put(data)
        for piece in assembler.feed(data) if data else assembler.finish():
            self._write(rank, stream, piece)
        if assembler.pending:
            self._write(rank, stream, Piece(assembler.pending, final=False))
        self._complain()

    def say(self, text: str, *, always: bool = False) -> None:
        """Writes a message of the launcher to standard error; `always`: even if quiet."""
        for line in text.splitlines():
            piece = Piece(line, final=True)
            if always or not self._quiet:
                self._screens["stderr"].write("kungfu-run: ", None, piece)
            if self._log is not None:
                self._log.write("kungfu-run: ", None, piece)

    def last_lines(self, rank: int) -> list[str]:
        return list(self._last[rank])

    def finish(self, over: Callable[[], bool] = lambda: False) -> None:
        """Writes the rest, as fast as the readers take it.

        Output that they have not taken when `over` returns True is dropped.
        """
        for screen in self._screens.values():
            screen.finish()
        for sink in self.sinks:
            while sink.waiting and not over():
                sink.pump(timeout=_ASK_AGAIN)
            sink.drop()

    def _write(self, rank: int, stream: str, piece: Piece) -> None:
        known = self._known_by.get(rank)
        prefix = "" if known and piece.text.startswith(known) else self._prefixes[rank]
        if piece.final:
            self._last[rank].append(_ESCAPE.sub("", piece.text)[:_LAST_LINE_LENGTH])
            if self._log is not None:
                self._log.write(prefix, None, piece)
        if not self._quiet:
            self._screens[stream].write(prefix, _COLOURS[rank % len(_COLOURS)], piece)

    def _complain(self) -> None:
        """Reports, once for each file, that it can no longer be written."""
        for sink in self._logs:
            if sink.error is not None and sink.fileno() not in self._broken_logs:
                self._broken_logs.add(sink.fileno())
                self.say(f"a log file is no longer written: {sink.error}", always=True)


def _screens(stdout: int, stderr: int) -> dict[str, Screen]:
    """One screen for both if they are the same file or terminal."""
    out, err = Sink(stdout), Sink(stderr)
    screen = Screen(out)
    same = out.error is None and err.error is None and out.identity == err.identity
    return {"stdout": screen, "stderr": screen if same else Screen(err)}


def _raw_sinks(folder: Path, rank: int) -> dict[tuple[int, str], Sink]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LaunchError(f"-logdir: cannot make '{folder}': {error.strerror}") from None
    return {(rank, stream): _log_sink(folder / f"rank-{rank}.{stream}.log") for stream in STREAMS}


def _log_sink(path: Path) -> Sink:
    try:
        return Sink(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666))
    except OSError as error:
        raise LaunchError(f"cannot write the log file '{path}': {error.strerror}") from None
