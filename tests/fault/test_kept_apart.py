"""Peers of one host that the system keeps from each other's memory, as containers are."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests import ports
from tests.by_hand import what_they_say
from tests.fault.elastic import PYTHON

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.fault.conftest import Jobs, Launch

# Of two peers, in memory that both could reach. Floats have these numbers exactly.
SUMS = """
try:
    libraries.check(core.kungfu_init())
    shared = os.environ.get("KUNGFU_TRANSPORT") != "tcp"
    array = AllReduce("x", 100_000, shared=shared)
    array.wait()
    for step in range(3):
        array.values[:] = [step * core.kungfu_rank() + i for i in range(100_000)]
        array.start().wait()
        assert array.values[:] == [step + 2 * i for i in range(100_000)]
    print("direct", libraries.statistics()["direct"], flush=True)
except errors.KungfuError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""
START = """
import os, sys
from kungfu_tf import errors
from kungfu_tf.native import libraries
from tests.fault.peers import AllReduce
core = libraries.core()
rank = os.environ["KUNGFU_PEERS"].split(",").index(os.environ["KUNGFU_SELF"])
"""
# Its arguments: which ranks are called through which command.
CALLED = f"""{START}
ranks, *through = sys.argv[1:] or [""]
if str(rank) in ranks:
    os.execvp(through[0], [*through, *sys.orig_argv[:-len(sys.argv[1:])]])
"""
WAITS = "import signal; print('here', flush=True); signal.pause()"
# Rank 1 becomes another user when it has loaded what that one may not be able to read.
OF_TWO_USERS = f"""{START}
if rank == 1:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
{SUMS}"""

IN_A_CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc")
WITHOUT_RIGHTS = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all")
WITHOUT_KILL = ("setpriv", "--bounding-set", "-kill", "--inh-caps", "-kill")

UNUSED = "the host's peers do not use each other's memory: "
OF_0 = "rank 1 cannot use the memory of rank 0: /proc/[0-9]+/fd/[0-9]+"
OF_1 = "rank 0 cannot use the memory of rank 1: /proc/1/fd/[0-9]+"
APART = ": are the processes in different containers, or of users with different rights\\?"
FORBIDDEN = f": Permission denied{APART}"
UNKNOWN = f": No such file or directory{APART}"
ANOTHER = f"[^;]*{APART}"  # whatever has that number here


@pytest.fixture
def _is_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")


def skip_without(through: Sequence[str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes namespaces, and has rights to give up")
    if shutil.which(through[0]) is None:
        pytest.skip(f"{through[0]} is of util-linux")
    if subprocess.run([*through, "true"], check=False, timeout=60).returncode != 0:
        pytest.skip(f"{' '.join(through)} is not allowed here")


def start(kungfu_run: Jobs, program: str, ranks: str, through: Sequence[str]) -> Launch:
    skip_without(through)
    return kungfu_run("-np", "2", *PYTHON, CALLED + program, ranks, *through)


@pytest.mark.parametrize(
    ("ranks", "through", "whys"),
    [
        ("1", WITHOUT_RIGHTS, [OF_0 + FORBIDDEN]),
        ("1", IN_A_CONTAINER, [OF_1 + ANOTHER, OF_0 + UNKNOWN]),
        # What each finds by the number of the other one is its own.
        ("01", IN_A_CONTAINER, [OF_1 + ANOTHER, OF_0 + ANOTHER]),
    ],
)
def test_they_say_so_and_do_without(
    kungfu_run: Jobs, ranks: str, through: Sequence[str], whys: Sequence[str]
) -> None:
    launch = start(kungfu_run, SUMS, ranks, through)
    assert launch.wait() == 0, launch.err
    assert sorted(launch.out.splitlines()) == ["[0] direct 0", "[1] direct 0"]
    assert len(launch.complaints) == 1, launch.err
    said = launch.complaints[0]
    assert said.startswith("[0] ")
    assert re.search(re.escape(UNUSED) + "; ".join(whys) + "$", said), said


def test_without_that_they_use_it(kungfu_run: Jobs) -> None:
    launch = kungfu_run("-np", "2", *PYTHON, CALLED + SUMS)
    assert launch.wait() == 0, launch.err
    assert sorted(launch.out.splitlines()) == ["[0] direct 4", "[1] direct 4"]
    assert launch.complaints == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_containers_end_with_their_launcher(kungfu_run: Jobs, number: int) -> None:
    """Though the first process in one ignores SIGTERM, and does not see that its caller dies."""
    launch = start(kungfu_run, WAITS, "01", IN_A_CONTAINER)
    launch.until_printed("here", times=2)
    launch.process.send_signal(number)
    launch.wait()
    kungfu_run.nothing_remains()


@pytest.mark.usefixtures("_is_root")
def test_of_two_users_each_keeps_to_itself() -> None:
    peers = [f"127.0.0.1:{port}" for port in ports.take(2)]
    first, second = what_they_say(OF_TWO_USERS, peers, [{}, {}])
    assert second == "direct 0\n", first + second
    warning, direct = first.splitlines()
    assert re.search(re.escape(UNUSED) + OF_0 + FORBIDDEN + "$", warning), first
    assert direct == "direct 0"


@pytest.mark.usefixtures("_is_root")
@pytest.mark.parametrize(
    ("transport", "mode", "why"),
    [
        ("auto", 0o755, "unix: directory '{}' belongs to another user: "),
        ("auto", 0o700, "unix: directory '{}': Permission denied: "),
        ("tcp", 0o755, "the runner's socket {}/control.sock: Permission denied: "),
    ],
)
def test_a_peer_that_is_not_its_launcher_s_user_is_told_what_to_do(
    kungfu_run: Jobs, transport: str, mode: int, why: str
) -> None:
    kungfu_run.temporary.chmod(mode)
    launch = kungfu_run("-np", "2", *PYTHON, OF_TWO_USERS, KUNGFU_TRANSPORT=transport)
    assert launch.wait() == 1
    directory = f"{kungfu_run.temporary}/kungfu-[0-9a-f]+"
    advice = "start kungfu-run as the user that its peers run as"
    told = re.escape("[1] PermissionDeniedError: ") + why.format(directory) + advice
    assert re.search(f"^{told}.*messages#another-user", launch.err, re.MULTILINE), launch.err
    assert re.search(r"rank 1 on 127\.0\.0\.1 .* failed first: exit code 1", launch.err)


@pytest.mark.usefixtures("_is_root")
def test_by_hand_too(tmp_path: Path) -> None:
    peers = [f"127.0.0.1:{port}" for port in ports.take(2)]
    tmp_path.chmod(0o700)
    environ = {"KUNGFU_SOCKET_DIR": str(tmp_path), "KUNGFU_COLLECTIVE_TIMEOUT": "1"}
    _, second = what_they_say(OF_TWO_USERS, peers, [environ, environ])
    assert second.startswith("PermissionDeniedError: unix: directory "), second
    advice = "leave it out on all peers of this host if they are of several users"
    assert f"{advice} (kungfu_tf docs: messages#another-user)\n" in second


def test_a_peer_that_may_not_be_killed_is_told_of_and_waited_for(
    kungfu_run: Jobs, tmp_path: Path
) -> None:
    skip_without(WITHOUT_KILL)
    os.mkfifo(tmp_path / "end")
    end = os.open(tmp_path / "end", os.O_RDWR)
    program = f"""
import os
end = os.open({str(tmp_path / "end")!r}, os.O_RDONLY)
os.setuid(65534)
print("here", flush=True)
os.read(end, 1)
"""
    launch = kungfu_run(*PYTHON, program, through=WITHOUT_KILL, KUNGFU_GRACE="0.2")
    launch.until_printed("here")
    try:
        launch.process.terminate()
        launch.until_said("cannot be killed")
    finally:
        os.write(end, b"!")
        os.close(end)
    assert launch.wait() == 128 + signal.SIGTERM
