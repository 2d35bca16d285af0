"""kungfu-distribute and kungfu-rrun, with an ssh that stays here and says whom it was to call."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import kungfu_tf
from kungfu_tf.launcher.command import distribute
from tests import ports

# A user's shell that is no sh: it knows words and how to become another program.
SHELL = """
import os, shlex, sys
exec, *words = shlex.split(sys.argv[1])
assert exec == "exec"
os.execvp(words[0], words)
"""
# As sshd does, it calls the command in a session of its own, which outlives ssh.
SSH = f"""#!/bin/sh
[ "$1 $2 $3" = "-o BatchMode=yes --" ] || exit 99
HOST=$4 exec setsid --fork --wait {sys.executable} -c '{SHELL}' "$5"
"""

CALLED = "import sys; from kungfu_tf.launcher.command import distribute as d; sys.exit(d.main_{}())"


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bin" / "ssh"
    path.parent.mkdir()
    path.write_text(SSH)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("KUNGFU_SECRET", raising=False)
    monkeypatch.delenv("KUNGFU_SECRET_FILE", raising=False)


@pytest.mark.usefixtures("ssh")
def test_a_command_is_called_on_every_host(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["-u", "me", "-H", "10.0.0.1:2,10.0.0.2:1:gate", "sh", "-c", 'echo "$HOST $1"; pwd']
    assert distribute.main_distribute([*words, "", "a b"]) == 0
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == [
        f"[10.0.0.1] {os.getcwd()}",
        "[10.0.0.1] me@10.0.0.1 a b",
        f"[10.0.0.2] {os.getcwd()}",
        "[10.0.0.2] me@gate a b",
    ]


@pytest.mark.usefixtures("ssh")
def test_the_first_code_that_is_not_0_is_that_of_all() -> None:
    words = ["-H", "10.0.0.1,10.0.0.2", "sh", "-c", 'case "$HOST" in *2) exit 5;; esac']
    assert distribute.main_distribute(words) == 5
    assert distribute.main_distribute(["-timeout", "0.2", "sleep", "1000"]) == 124


@pytest.mark.usefixtures("ssh")
def test_peers_are_started_on_every_host(capfd: pytest.CaptureFixture[str]) -> None:
    program = "import os; print(os.environ['KUNGFU_SELF'], len(os.environ['KUNGFU_SECRET']))"
    first, second = ports.take(2)
    words = ["-np", "3", "-H", "127.0.0.1:2,127.0.0.2:2", "-port-range", f"{first}-{second}"]
    assert distribute.main_rrun([*words, sys.executable, "-c", program]) == 0
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == [
        f"[127.0.0.1:0] 127.0.0.1:{first} 64",
        f"[127.0.0.1:1] 127.0.0.1:{second} 64",
        f"[127.0.0.2:2] 127.0.0.2:{first} 64",
    ]
    assert "[127.0.0.1] kungfu-run: " in err  # says how the peers share the cores


@pytest.mark.usefixtures("ssh")
def test_on_one_host_lines_have_ranks_alone(capfd: pytest.CaptureFixture[str]) -> None:
    assert distribute.main_rrun(["-H", "127.0.0.1:2", "-np", "2", "echo", "here"]) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == ["[0] here", "[1] here"]


GIVEN = {
    "KUNGFU_CHUNK_BYTES": "2097152",
    "KUNGFU_MONITOR_TOKEN": "a token that nobody sees",
    "FIRST": 'it\'s "quoted" $HOME `true` \\\\',
    "SECOND": "",
    "THIRD": "=",
}
NOT_FORWARDED = {"KUNGFU_SELF": "10.0.0.9:1", "FOURTH": "stays here"}


@pytest.mark.usefixtures("ssh")
def test_variables_reach_every_host_unseen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What ssh calls here has no other variables, as on another host."""
    seen, ours = tmp_path / "seen", Path(kungfu_tf.__file__).parents[1]
    no_variables = f'echo "$*" >> {seen}\nexec env -i PYTHONPATH={ours}'
    (tmp_path / "bin" / "ssh").write_text(SSH.replace("HOST=$4 exec", no_variables))
    for name, value in {**GIVEN, **NOT_FORWARDED}.items():
        monkeypatch.setenv(name, value)
    shown = "import json, os; print(json.dumps(dict(os.environ)))"
    words = ["-x", "FIRST,SECOND", "-x", "THIRD", "-H", "127.0.0.1:1", "-np", "1"]
    assert distribute.main_rrun([*words, sys.executable, "-c", shown]) == 0
    there = json.loads(capfd.readouterr().out.removeprefix("[0] "))
    assert {name: there.get(name) for name in GIVEN} == GIVEN
    assert there["KUNGFU_SELF"] != NOT_FORWARDED["KUNGFU_SELF"]
    assert "FOURTH" not in there
    assert "kungfu_tf.launcher" in seen.read_text()
    assert GIVEN["KUNGFU_MONITOR_TOKEN"] not in seen.read_text()


@pytest.mark.usefixtures("ssh")
def test_the_first_host_that_fails_ends_all(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUNGFU_GRACE", "0.1")
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        hosts = ["-H", "127.0.0.1:1,127.0.0.2:1", "-np", "2", "-port-range", f"{port}-{port}"]
        assert distribute.main_rrun([*hosts, "sleep", "1000"]) == 2
    err = capfd.readouterr().err
    assert f"[127.0.0.2] kungfu-run: port {port} of 127.0.0.2 is in use" in err
    assert "kungfu-run: 127.0.0.2 has failed (exit code 2)" in err


@pytest.mark.usefixtures("ssh")
@pytest.mark.parametrize("elastic", [[], ["-w"]])
def test_a_warning_is_handed_to_the_peers_of_every_host(elastic: list[str]) -> None:
    waits = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("here", flush=True)
print("told", signal.sigwait([signal.SIGUSR1]).name, flush=True)
"""
    first, second, runners = ports.take(3)
    words = ["-np", "3", "-H", "127.0.0.1:2,127.0.0.2:2", "-port-range", f"{first}-{second}"]
    program = [sys.executable, "-c", waits]
    with subprocess.Popen(
        [
            *(sys.executable, "-c", CALLED.format("rrun")),
            *(*words, *elastic, "-port", str(runners), *program),
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as caller:
        assert caller.stdout is not None
        for _ in range(3):
            assert caller.stdout.readline().endswith("here\n")
        caller.send_signal(signal.SIGUSR1)
        told = sorted(caller.stdout)
    assert caller.returncode == 0
    assert told == [f"[127.0.0.{1 + rank // 2}:{rank}] told SIGUSR1\n" for rank in range(3)]


HOLDS = "exec 9>$0; echo here; sleep 1000; true"


@pytest.mark.usefixtures("ssh")
@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("distribute", signal.SIGINT),
        ("distribute", signal.SIGKILL),
        ("rrun", signal.SIGTERM),
    ],
)
def test_programs_end_with_their_caller(
    command: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Each holds a pipe, which is at its end when none is left."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    first, last = ports.take(2)
    flags = ["-np", "2", "-port-range", f"{first}-{last}"] if command == "rrun" else []
    hosts = ["-timeout", "100", "-H", "127.0.0.1,127.0.0.2"]
    with (
        open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as held,
        subprocess.Popen(
            [sys.executable, "-c", CALLED.format(command), *hosts, *flags, "sh", "-c", HOLDS, pipe],
            stdout=subprocess.PIPE,
            text=True,
        ) as caller,
    ):
        assert caller.stdout is not None
        for _ in range(2):
            assert caller.stdout.readline().endswith("here\n")
        caller.send_signal(number)
        assert caller.wait(100) == (-number if number == signal.SIGKILL else 128 + number)
        assert select.select([held], [], [], 100)[0]
        assert held.read() == b""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-np", "2", "prog"], "-H or -hostfile says which hosts"),
        (["-H", "10.0.0.1", "-self", "10.0.0.1", "prog"], "-self and -nic are of one host"),
        (["-H", "10.0.0.1"], "no program to run"),
        (["-H", "10.0.0.1", "-x", "NOT_SET", "prog"], "-x: the variable NOT_SET is not set here"),
        (["-H", "10.0.0.1", "-x", "A=1", "prog"], "-x: 'A=1' names 'A=1', which is not a variable"),
    ],
)
def test_what_cannot_be_called(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert distribute.main_rrun(words) == 2
    assert why in capsys.readouterr().err


def test_help_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert distribute.main_rrun(["-help"]) == 0
    assert "kungfu-rrun -H hosts" in capsys.readouterr().out
