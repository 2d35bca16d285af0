"""The control connection of one peer, about which the caller decides."""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import selectors
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kungfu_tf.launcher.channels import event_turn
from kungfu_tf.launcher.channels.control import Answer, ControlServer
from kungfu_tf.launcher.channels.heartbeat import Heartbeat
from kungfu_tf.launcher.options.command_line import Options

LAST = "ended"  # the name of what is said last of all

_ONLY = 0  # the number of the peer, which is the only one of its control server
_LOOKS = 1.0  # seconds between two looks at the peer's signs of life


class Said(NamedTuple):
    """A line of the peer: the name of a Director's method and its arguments, or LAST."""

    name: str
    arguments: tuple[Any, ...] = ()


class PeerControl:
    """Passes on what a peer says, and what the caller has decided.

    One thread uses `serving`, in which the peer runs. Others call `tell` and `said`.
    """

    def __init__(self) -> None:
        self._said: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._told: dict[int, tuple[str, tuple[Any, ...]]] = {}  # by their places in the order
        self._next = 0  # the place of the next decision
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._answers: collections.deque[Answer] = collections.deque()

    def tell(self, place: int, name: str, *arguments: Any) -> None:
        """Tells the peer of a decision.

        Args:
            place: Its place in the order of all decisions, from 0: calls may overtake each other.
            name: "answer", or a method of a Host, which only this peer is told.
            arguments: Its arguments.
        """
        with self._lock:
            self._told[place] = name, arguments
        os.eventfd_write(self._wake, 1)

    def said(self, timeout: float) -> list[Said]:
        """What the peer has said since the last call; waits for the first line of it."""
        lines = []
        with contextlib.suppress(queue.Empty):
            lines.append(self._said.get(timeout=timeout))
            while True:
                lines.append(self._said.get_nowait())
        return lines

    @contextlib.contextmanager
    def serving(self, path: str, peer: str) -> Iterator[Callable[[subprocess.Popen[bytes]], int]]:
        """Listens at `path` to the peer of that address.

        Yields:
            Waits for the end of the peer's process, and returns its exit code.
        """
        with selectors.PollSelector() as selector:
            server = ControlServer(path, {_ONLY: peer}, selector, handler=_Handler(self))
            selector.register(self._wake, selectors.EVENT_READ, lambda _: self._obey(server))
            try:
                yield lambda child: self._wait(child, server, selector)
            finally:
                server.drain(_ONLY)
                server.close()
                self.keep(LAST)

    def keep(self, name: str, *arguments: Any) -> None:
        """Keeps a line of the peer for the caller."""
        self._said.put(Said(name, arguments))

    def ask(self, name: str, *arguments: Any, answer: Answer) -> None:
        """`keep` for a question."""
        self._answers.append(answer)
        self.keep(name, *arguments)

    def _wait(
        self,
        child: subprocess.Popen[bytes],
        server: ControlServer,
        selector: selectors.BaseSelector,
    ) -> int:
        heartbeat = Heartbeat(
            server.contacts,
            say=lambda line: print(f"kungfu_tf: {line}", flush=True),
            give_up_after=Options(command=(), on_failure="survive").patience,
            give_up=lambda _: child.kill(),
        )
        end = os.pidfd_open(child.pid)
        try:
            selector.register(end, selectors.EVENT_READ, lambda _: None)
            while child.poll() is None:
                event_turn.take(selector, selector.select(_LOOKS))
                heartbeat.check()
                server.drop_strangers()
            selector.unregister(end)
        finally:
            os.close(end)
        return child.wait()

    def _obey(self, server: ControlServer) -> None:
        """Hands on the decisions whose turn it is."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        methods: dict[str, Callable[..., None]] = {
            "answer": lambda refusal: self._answers.popleft()(refusal),
            "publish": lambda version, since, peers, lost: server.announce_members(
                version, since, peers, [_ONLY], lost
            ),
            "renew": lambda version: server.renew(version, [_ONLY]),
            "failed": server.announce_failed,
            "finished": server.announce_finished,
        }
        with self._lock:
            ready = []
            while self._next in self._told:
                ready.append(self._told.pop(self._next))
                self._next += 1
        for name, arguments in ready:
            methods[name](*arguments)


class _Handler:
    """A Handler that decides nothing itself."""

    def __init__(self, control: PeerControl) -> None:
        self._control = control

    def ready(self, rank: int) -> None:
        self._control.keep("ready")

    def entered(self, rank: int, version: int) -> None:
        self._control.keep("entered", version)

    def broken(self, rank: int, version: int) -> None:
        self._control.keep("broken", version)

    def propose(self, rank: int, size: int | None, answer: Answer) -> None:
        self._control.ask("propose", size, answer=answer)

    def notice(self, rank: int, answer: Answer) -> None:
        self._control.ask("notice", answer=answer)

    def leave(self, rank: int, answer: Answer) -> None:
        self._control.ask("leave", answer=answer)
