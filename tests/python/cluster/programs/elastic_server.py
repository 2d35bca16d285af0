"""The config server of a job, which one of its peers starts and ends.

Arguments of the program: its port, and the file of its document.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.launcher.document.config_client import Client, Problem


class Server:
    def __init__(self) -> None:
        self.client = Client(f"http://127.0.0.1:{sys.argv[1]}", os.environ["KUNGFU_CONFIG_TOKEN"])
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
        self.client.put("/stop", {})
        self.process.wait()

    def change(self, new: Callable[[list[str]], list[str]]) -> None:
        """Changes the workers, when the runner has told who they are."""
        workers, version = self._told()
        self.client.put("/put", {"workers": new(workers), "version": version})

    def _told(self) -> tuple[list[str], int]:
        """The workers, who are those of today, and the version of the document."""
        deadline = time.monotonic() + 100
        here = [peer.name_of(rank) for rank in range(kf.size())]
        while True:
            workers, version = [], 0
            with contextlib.suppress(Problem):  # it has not heard of the job yet
                _, workers, version = self.client.get()
            if workers == here:
                return workers, version
            assert time.monotonic() < deadline, workers
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
