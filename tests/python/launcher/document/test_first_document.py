"""What a launcher does that waits for a document to begin with."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable

import pytest

from kungfu_tf.launcher.channels.signals import SignalPipe
from kungfu_tf.launcher.document import first_document, own_process
from kungfu_tf.launcher.document.config_source import Follow
from kungfu_tf.launcher.document.memory_store import MemoryStore
from kungfu_tf.launcher.options import command_line
from kungfu_tf.launcher.options.launch_error import LaunchError


def wait(said: list[str]) -> None:
    words = ["-w", "-timeout", "20s", "-config-server", "http://127.0.0.1:1", "-init-version", "-1"]
    with SignalPipe() as signals:
        first_document.wait(command_line.parse([*words, "prog"]), "t" * 32, signals, said.append)


def test_without_the_process_that_follows_the_server_nobody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_process, "_START", "")  # a program that ends at once
    said: list[str] = []
    with pytest.raises(LaunchError, match="the process that follows the config server has ended"):
        wait(said)
    assert said == ["waiting for the document of http://127.0.0.1:1"]


class Sudden:
    """A server whose document comes together with a signal."""

    has_ended = False

    def __init__(
        self,
        _store: MemoryStore,
        _url: str,
        _token: str,
        selector: selectors.BaseSelector,
        follow: Follow,
        _say: Callable[[str], None],
    ) -> None:
        self._reader, writer = os.pipe()
        os.close(writer)

        def read(_events: int) -> None:
            selector.unregister(self._reader)
            follow(["127.0.0.1:10000"])

        selector.register(self._reader, selectors.EVENT_READ, read)
        os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        os.close(self._reader)


def test_a_signal_counts_that_comes_together_with_the_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_document, "OtherServer", Sudden)
    with pytest.raises(LaunchError) as caught:
        wait([])
    assert caught.value.exit_code == 128 + signal.SIGTERM
