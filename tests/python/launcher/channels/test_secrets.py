"""The secrets of jobs: those that a user gives, and what becomes of them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kungfu_tf.launcher.channels import credentials
from kungfu_tf.launcher.options import given_secrets
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.links import given_secret
from kungfu_tf.links.credentials import Credentials
from tests import ports
from tests.by_hand import what_they_say
from tests.waiting import until

SECRET = "a secret that is long enough"
FILES = ["KUNGFU_SECRET_FILE", "KUNGFU_CONFIG_TOKEN_FILE"]
DEADLINE = 60.0


def on_several_hosts(description: str = "a:1,b:1", **environ: str) -> Credentials:
    return credentials.several_hosts(given_secrets.secret(environ), description)


def test_on_one_host_secret_and_job_are_random() -> None:
    one, other = credentials.one_host(), credentials.one_host()
    assert len(bytes.fromhex(one.secret)) == 32
    assert one.secret != other.secret
    assert one.job_id != other.job_id


def test_on_several_hosts_all_runners_agree(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    one = on_several_hosts(KUNGFU_SECRET_FILE=str(path))
    assert one == on_several_hosts(KUNGFU_SECRET=SECRET)
    assert one.secret == SECRET
    assert SECRET not in one.job_id
    assert one.warning is None
    assert on_several_hosts("a:1,b:2", KUNGFU_SECRET=SECRET).job_id != one.job_id


def test_nobody_prints_one() -> None:
    environ = {"KUNGFU_SECRET": SECRET, "KUNGFU_CONFIG_TOKEN": SECRET}
    given = given_secrets.read(environ)
    assert SECRET not in repr((given, on_several_hosts(**environ)))


def test_without_a_secret_several_hosts_are_refused_and_told_how_to_make_one() -> None:
    with pytest.raises(LaunchError) as caught:
        on_several_hosts()
    assert "token_hex" in str(caught.value)
    assert "KUNGFU_SECRET_FILE" in str(caught.value)
    assert credentials.several_hosts(None, "a:1,b:1", insecure=True).warning is not None


def test_secrets_that_cannot_be_used(tmp_path: Path) -> None:
    def refused(**environ: str) -> str:
        with pytest.raises(LaunchError) as caught:
            given_secrets.read(environ)
        return str(caught.value)

    path = tmp_path / "secret"
    assert "cannot read" in refused(KUNGFU_SECRET_FILE=str(path))
    assert "Is a directory" in refused(KUNGFU_SECRET_FILE=str(tmp_path))
    path.write_text("short\nwhat comes later does not count\n")
    assert "has 5 characters" in refused(KUNGFU_SECRET_FILE=str(path))
    path.write_text("x" * (given_secret.LONGEST + 1))
    assert "has more characters" in refused(KUNGFU_SECRET_FILE=str(path))
    assert "has more characters" in refused(KUNGFU_SECRET_FILE="/dev/zero")
    path.write_bytes(SECRET.encode() + b"\r\n")
    assert "cannot be printed" in refused(KUNGFU_SECRET_FILE=str(path))
    path.write_bytes(SECRET.encode() + b"\xff\n")
    assert "cannot read" in refused(KUNGFU_SECRET_FILE=str(path))
    assert "cannot be printed" in refused(KUNGFU_SECRET="sixteen\x01characters")


def test_the_longest_secret_may_have_any_characters(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("𝄞" * given_secret.LONGEST + "\n")
    assert len(on_several_hosts(KUNGFU_SECRET_FILE=str(path)).secret) == given_secret.LONGEST


@pytest.mark.parametrize("content", [SECRET, f"{SECRET}\n", f"  {SECRET} \nanother line\n"])
def test_runners_and_peers_read_the_same_secret(tmp_path: Path, content: str) -> None:
    """One peer has it from a runner; the other, which no runner has started, from the file."""
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(0o600)
    read = on_several_hosts(KUNGFU_SECRET_FILE=str(path)).secret
    peers = [f"127.0.0.1:{port}" for port in ports.take(2)]
    environs = [{"KUNGFU_SECRET": read}, {"KUNGFU_SECRET": "", "KUNGFU_SECRET_FILE": str(path)}]
    program = "import kungfu_tf as kf; kf.barrier(); print(kf.size())"
    assert what_they_say(program, peers, environs) == ["2\n", "2\n"]


def test_the_secret_itself_goes_before_its_file(tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    assert on_several_hosts(KUNGFU_SECRET=SECRET, KUNGFU_SECRET_FILE=none).secret == SECRET


def test_a_secret_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o644)
    warning = on_several_hosts(KUNGFU_SECRET_FILE=str(path)).warning
    assert warning is not None
    assert "chmod 600" in warning


def test_a_token_that_others_can_read_is_used_by_nobody(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(SECRET)
    path.chmod(0o640)
    token = given_secrets.config_token({"KUNGFU_CONFIG_TOKEN_FILE": str(path)})
    for use in (given_secrets.usable, given_secrets.needed):
        with pytest.raises(LaunchError, match="open to other users: chmod 600"):
            use(token)
    path.chmod(0o600)
    token = given_secrets.config_token({"KUNGFU_CONFIG_TOKEN_FILE": str(path)})
    assert given_secrets.usable(token) == given_secrets.needed(token) == SECRET


def test_no_token_is_an_error_for_who_needs_one() -> None:
    assert given_secrets.usable(None) is None
    with pytest.raises(LaunchError, match="KUNGFU_CONFIG_TOKEN_FILE"):
        given_secrets.needed(None)


def test_a_pipe_may_have_it() -> None:
    """As that of KUNGFU_SECRET_FILE=<(pass kungfu) does."""
    reader, writer = os.pipe()
    with open(reader), open(writer, "w") as file:
        file.write(SECRET)
        file.close()
        assert on_several_hosts(KUNGFU_SECRET_FILE=f"/dev/fd/{reader}").secret == SECRET


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    path = tmp_path / "pipe"
    os.mkfifo(path, 0o600)
    return str(path)


def test_a_pipe_is_waited_for_and_its_writer_need_not_end(pipe: str) -> None:
    read: list[str] = []
    reader = threading.Thread(
        target=lambda: read.append(on_several_hosts(KUNGFU_SECRET_FILE=pipe).secret), daemon=True
    )
    reader.start()
    with open(when_read(pipe), "wb", buffering=0) as file:
        file.write(SECRET[:5].encode())
        none = b"\0" * 4
        until(lambda: fcntl.ioctl(file, termios.FIONREAD, none) == none, lambda: "it is taken")
        file.write(SECRET[5:].encode() + b"\nmore")
        reader.join(DEADLINE)
        assert read == [SECRET]


def when_read(pipe: str) -> int:
    """Its writing end, as soon as somebody reads it."""
    ends: list[int] = []

    def opens() -> bool:
        with contextlib.suppress(OSError):
            ends.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(ends)

    until(opens, lambda: "somebody reads the pipe")
    return ends[0]


RUN = """
import sys
from kungfu_tf.launcher.command import kungfu_run
from kungfu_tf.links import given_secret
given_secret.DEADLINE = 0.3
sys.exit(kungfu_run.main(["echo", "started"]))
"""


@pytest.fixture(params=["no writer", "no word", "no whole line"])
def silent(request: pytest.FixtureRequest, pipe: str) -> Iterator[str]:
    if request.param == "no writer":
        yield pipe
        return
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, SECRET.encode() if request.param == "no whole line" else b"")
    yield pipe
    os.close(writer)


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_that_says_nothing_is_an_error_in_time(name: str, silent: str) -> None:
    environ = {name: text for name, text in os.environ.items() if "KUNGFU" not in name}
    ended = subprocess.run(
        [sys.executable, "-c", RUN],
        env=environ | {name: silent},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    why = "no line was written to it within 0.3 s (kungfu_tf docs: messages#secret-file)"
    assert ended.stderr == f"kungfu-run: {name}: cannot read '{silent}': {why}\n"
