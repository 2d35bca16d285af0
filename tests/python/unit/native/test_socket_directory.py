"""The directory of the Unix sockets of a host's peers is removed with the last of them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kungfu_tf.native import socket_directory

HOLD = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


@pytest.fixture
def other(folder: Path) -> Iterator[Path]:
    """A directory in which another process is a peer."""
    made = socket_directory.make("other", "a secret")
    command = [sys.executable, "-c", HOLD, str(made / "7.lock")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout.readline() == "held\n"
        yield made
        process.stdin.close()


def test_peers_of_a_job_share_one_that_others_cannot_guess(folder: Path) -> None:
    made = socket_directory.make("job", "a secret")
    assert made.parent == folder
    assert made.stat().st_mode & 0o777 == 0o700
    assert socket_directory.make("job", "a secret") == made
    assert socket_directory.make("job", "another secret") != made


def test_the_last_peer_removes_it(other: Path) -> None:
    (other / "8.lock").touch()
    socket_directory.leave(other, 8)
    assert [path.name for path in other.iterdir()] == ["7.lock"]
    socket_directory.leave(other, 7)
    assert not other.exists()
