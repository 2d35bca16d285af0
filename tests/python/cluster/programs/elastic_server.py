"""The config server of a job, which one of its peers starts and ends.

Arguments of the program: its port, and the file of its document.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.http_store import HttpStore
from kungfu_tf.launcher.document.store import Problem


class Server:
    def __init__(self) -> None:
        url = f"http://127.0.0.1:{sys.argv[1]}"
        self.store = HttpStore(url, os.environ["KUNGFU_CONFIG_TOKEN"])
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["-port", sys.argv[1], "-file", sys.argv[2]]
        command = [sys.executable, "-m", "kungfu_tf.launcher.command.kungfu_config_server", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline()

    def stop(self) -> None:
        """Ends it, when it knows who takes part."""
        assert self.process is not None
        self._told()
        self.process.terminate()
        self.process.wait()

    def change(self, new: Callable[[list[str]], list[str]]) -> None:
        """Changes the workers, when the runner has told who they are."""
        now = self._told()
        self.store.put(dataclasses.replace(now, workers=tuple(new([*now.workers]))))

    def _told(self) -> Document:
        """The document, whose workers are those of today."""
        deadline = time.monotonic() + 100
        here = [peer.name_of(rank) for rank in range(kf.size())]
        while True:
            document = None
            with contextlib.suppress(Problem):  # it has not heard of the job yet
                document = self.store.get()
            if document is not None and [*document.workers] == here:
                return document
            assert time.monotonic() < deadline, document
            time.sleep(0.01)

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """An error that says what is not, if it takes too long."""
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def wait_for_change() -> None:
    """Until the runner has told this peer of others."""
    wait_until(peer.outdated, "the peers do not change")
