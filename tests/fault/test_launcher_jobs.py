"""Jobs that end well, fail, are interrupted or time out."""

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import ports

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

PYTHON = (sys.executable, "-S", "-c")

RANK = """
import json, os, signal, sys, time
peers = os.environ["KUNGFU_PEERS"].split(",")
rank = peers.index(os.environ["KUNGFU_SELF"])
"""

# A peer's side of the control connection.
CONTROL = (
    RANK
    + """
import socket
runner = socket.socket(socket.AF_UNIX)
runner.settimeout(30)
runner.connect(os.environ["KUNGFU_CONTROL"])
runner.sendall(f"hello {peers[rank]} {os.getpid()}\\n".encode())
"""
)

WAIT_FOR_EVER = """
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


def test_each_peer_knows_who_it_is(kungfu_run: "Jobs") -> None:
    program = "print(rank, json.dumps(dict(os.environ)))\nprint('err', file=sys.stderr)"
    launch = kungfu_run("-np", "3", "-strategy", "ring", *PYTHON, RANK + program)
    assert launch.wait() == 0
    environments = {}
    for line in launch.out.splitlines():
        prefix, rank, text = line.split(" ", 2)
        assert prefix == f"[{rank}]"
        environments[int(rank)] = json.loads(text)
    assert sorted(environments) == [0, 1, 2]
    for name in ("KUNGFU_PEERS", "KUNGFU_JOB_ID", "KUNGFU_SECRET", "KUNGFU_SOCKET_DIR"):
        assert len({env[name] for env in environments.values()}) == 1
    assert {env["KUNGFU_STRATEGY"] for env in environments.values()} == {"RING"}
    assert sorted(launch.complaints) == ["[0] err", "[1] err", "[2] err"]


def test_the_first_failure_is_the_jobs_and_stops_the_others(kungfu_run: "Jobs") -> None:
    program = """
if rank == 1:
    print("about to fail")
    sys.exit(7)
"""
    launch = kungfu_run("-np", "3", *PYTHON, RANK + program + WAIT_FOR_EVER, KUNGFU_GRACE="1")
    assert launch.wait() == 7
    assert "rank 1 on 127.0.0.1 (pid " in launch.err
    assert ") failed first: exit code 7, after" in launch.err
    assert "kungfu-run:   | about to fail\n" in launch.err
    for rank in (0, 2):
        assert f"kungfu-run: rank {rank} on 127.0.0.1 (pid " in launch.err
    assert launch.err.count("stopped (killed by SIGTERM)") == 2


def test_a_peer_that_is_killed(kungfu_run: "Jobs") -> None:
    program = "if rank == 0:\n    os.kill(os.getpid(), signal.SIGKILL)\n" + WAIT_FOR_EVER
    launch = kungfu_run("-np", "2", *PYTHON, RANK + program, KUNGFU_GRACE="0.2")
    assert launch.wait() == 128 + signal.SIGKILL
    assert "rank 0 on 127.0.0.1" in launch.err
    assert "failed first: killed by SIGKILL" in launch.err


def test_whoever_ignores_sigterm_is_killed(kungfu_run: "Jobs") -> None:
    program = """
signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
while rank == 1 and not os.path.exists("ignoring"):
    time.sleep(0.01)
if rank == 1:
    sys.exit(1)
open("ignoring", "w").close()
"""
    launch = kungfu_run("-np", "2", *PYTHON, RANK + program + WAIT_FOR_EVER, KUNGFU_GRACE="3")
    assert launch.wait() == 1
    assert "[0] no\n" in launch.out
    assert "stopped (killed by SIGKILL: it had not ended within KUNGFU_GRACE)" in launch.err


def test_the_others_are_told_and_what_they_report_is_in_the_summary(kungfu_run: "Jobs") -> None:
    program = """
if rank == 1:
    runner.sendall(b"alive\\n")
    sys.exit(3)
told = runner.makefile().readline()
runner.sendall(f"report told: {told}".encode())
sys.exit(1)
"""
    launch = kungfu_run("-np", "3", *PYTHON, CONTROL + program, KUNGFU_GRACE="60")
    assert launch.wait() == 3
    told = re.findall(r"reported: told: failed 127\.0\.0\.1:\d+ exit code 3", launch.err)
    assert len(told) == 2


def test_the_culprit_is_found_also_if_it_is_the_last_to_end(kungfu_run: "Jobs") -> None:
    program = """
if rank == 0:
    runner.close()
    open("closed", "w").close()
    while not os.path.exists("told"):
        time.sleep(0.01)
    sys.exit(5)
while not os.path.exists("closed"):
    time.sleep(0.01)
if rank == 1:
    runner.sendall(b"report rank 0 is gone\\n")
    sys.exit(1)
runner.recv(4096)
open("told", "w").close()
sys.exit(1)
"""
    launch = kungfu_run("-np", "3", *PYTHON, CONTROL + program, KUNGFU_GRACE="60")
    assert launch.wait() == 5
    assert "rank 0 on 127.0.0.1" in launch.complaints[0]
    assert "failed first: exit code 5" in launch.complaints[0]
    assert "reported: rank 0 is gone" in launch.err


def test_garbage_on_the_control_socket_changes_nothing(kungfu_run: "Jobs") -> None:
    program = """
for garbage in (b"exit\\n", b"update 9\\n", b"hello 77 1\\n", b"\\xff" * 90000, b"report x\\n"):
    stranger = socket.socket(socket.AF_UNIX)
    stranger.settimeout(30)
    stranger.connect(os.environ["KUNGFU_CONTROL"])
    try:
        stranger.sendall(garbage)
        assert stranger.recv(1) == b""
    except (BrokenPipeError, ConnectionResetError):
        pass
runner.sendall(b"alive\\n")
print("still connected")
"""
    launch = kungfu_run("-np", "2", *PYTHON, CONTROL + program)
    assert launch.wait() == 0
    assert launch.out.count("still connected") == 2
    assert not launch.complaints


def test_one_peer_is_one(kungfu_run: "Jobs") -> None:
    launch = kungfu_run("-v", "-np", "1", "true")
    assert launch.wait() == 0
    assert "kungfu-run: 1 peer finished after " in launch.err


@pytest.mark.parametrize(("program", "code"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_a_program_that_cannot_be_started(kungfu_run: "Jobs", program: str, code: int) -> None:
    launch = kungfu_run("-np", "2", program)
    assert launch.wait() == code
    assert f"kungfu-run: cannot start '{program}'" in launch.err
    assert ("no directory of the PATH has it" in launch.err) == (program == "no-such-program")


def test_a_script_whose_interpreter_is_missing(kungfu_run: "Jobs", tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)
    launch = kungfu_run("-np", "2", "train", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert launch.wait() == 127
    assert launch.err.endswith("cannot start 'train': No such file or directory\n")


def test_a_script_without_its_interpreter(kungfu_run: "Jobs", tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    launch = kungfu_run("-np", "2", str(script))
    assert launch.wait() == 126
    assert f"Permission denied; python {script}?" in launch.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_forwarded_and_ends_the_job(kungfu_run: "Jobs", number: signal.Signals) -> None:
    program = f"""
def end(*_):
    print("saving", flush=True)
    sys.exit(0)
signal.signal({int(number)}, end)
"""
    launch = kungfu_run("-np", "2", *PYTHON, RANK + program + WAIT_FOR_EVER, KUNGFU_GRACE="60")
    launch.until_printed("ready", times=2)
    launch.process.send_signal(number)
    assert launch.wait() == 128 + number
    assert launch.out.count("saving") == 2
    assert f"{number.name}: stopping all peers" in launch.err
    assert launch.complaints[-1] == f"kungfu-run: stopped by {number.name}; no peer failed"


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT])
def test_a_warning_is_handed_to_the_peers_and_ends_nothing(
    kungfu_run: "Jobs", number: signal.Signals
) -> None:
    program = f"""
warned = []
signal.signal({int(number)}, lambda *_: warned.append(1))
print("ready", flush=True)
while not warned:
    time.sleep(0.01)
print("warned", flush=True)
"""
    launch = kungfu_run("-np", "2", *PYTHON, RANK + program)
    launch.until_printed("ready", times=2)
    launch.process.send_signal(number)
    assert launch.wait() == 0, launch.err
    assert launch.out.count("warned") == 2
    assert f"kungfu-run: {number.name}: handed to 2 peers\n" in launch.err


def test_a_peer_without_a_handler_is_named_when_a_warning_ends_it(kungfu_run: "Jobs") -> None:
    launch = kungfu_run("-np", "1", *PYTHON, RANK + WAIT_FOR_EVER)
    launch.until_printed("ready")
    launch.process.send_signal(signal.SIGUSR1)
    assert launch.wait() == 128 + signal.SIGUSR1
    assert "SIGUSR1: handed to 1 peer" in launch.err
    assert "failed first: killed by SIGUSR1" in launch.err


def test_a_second_sigint_kills(kungfu_run: "Jobs") -> None:
    program = """
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: print("no", flush=True))
"""
    launch = kungfu_run("-np", "2", *PYTHON, RANK + program + WAIT_FOR_EVER, KUNGFU_GRACE="3600")
    launch.until_printed("ready", times=2)
    launch.process.send_signal(signal.SIGINT)
    launch.until_printed("no", times=2)
    launch.process.send_signal(signal.SIGINT)
    assert launch.wait() == 130
    assert "SIGINT again: killing all peers" in launch.err
    assert "KUNGFU_GRACE" not in launch.err


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(kungfu_run: "Jobs") -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        launch = kungfu_run("-np", "1", *PYTHON, RANK + WAIT_FOR_EVER)
    finally:
        signal.signal(signal.SIGHUP, previous)
    launch.until_printed("ready")
    launch.process.send_signal(signal.SIGHUP)
    launch.process.send_signal(signal.SIGTERM)
    assert launch.wait() == 143
    assert "SIGHUP" not in launch.err


def test_the_time_of_a_job_is_limited(kungfu_run: "Jobs") -> None:
    launch = kungfu_run("-np", "2", "-timeout", "1s", *PYTHON, RANK + WAIT_FOR_EVER)
    assert launch.wait() == 124
    assert "-timeout: 1 s are over; running: rank 0, 1" in launch.err
    assert launch.err.count("stopped (killed by SIGTERM)") == 2


def test_peers_start_one_after_the_other(kungfu_run: "Jobs") -> None:
    # The kernel's time of the start, in ticks since boot: the launcher's doing alone.
    program = "print(rank, open('/proc/self/stat').read().rpartition(')')[2].split()[19])"
    launch = kungfu_run("-np", "3", "-delay", "100ms", *PYTHON, RANK + program)
    assert launch.wait() == 0
    started = dict(line.split()[1:] for line in launch.out.splitlines())
    times = [int(started[str(rank)]) / os.sysconf("SC_CLK_TCK") for rank in range(3)]
    assert times[1] - times[0] >= 0.08
    assert times[2] - times[1] >= 0.08


def test_lines_of_many_writers_stay_whole_and_in_order(kungfu_run: "Jobs") -> None:
    program = """
for number in range(2000):
    os.write(1 + number % 2, f"<{rank} {number}".encode())
    os.write(1 + number % 2, b"x" * (number % 97) + b">\\n")
os.write(1, b"the end")
"""
    launch = kungfu_run("-np", "4", *PYTHON, RANK + program)
    assert launch.wait() == 0
    for parity, text in enumerate((launch.out, launch.err)):
        for rank in range(4):
            mine = [line for line in text.splitlines() if line.startswith(f"[{rank}] <")]
            assert mine == [
                f"[{rank}] <{rank} {number}" + "x" * (number % 97) + ">"
                for number in range(parity, 2000, 2)
            ]
    assert launch.out.count("the end\n") == 4


def test_the_secret_is_on_no_command_line(kungfu_run: "Jobs") -> None:
    launch = kungfu_run(
        "-np", "2", *PYTHON, RANK + "print(os.environ['KUNGFU_SECRET'])" + WAIT_FOR_EVER
    )
    launch.until_printed("ready", times=2)
    secret = launch.out.split()[1]
    assert len(secret) == 64
    living = kungfu_run.living()
    assert len(living) == 4  # launcher, sweeper, two peers
    assert all(secret not in command for command in living.values())
    sweeper = next(pid for pid, command in living.items() if "sweeper.py" in command)
    assert secret not in Path(f"/proc/{sweeper}/environ").read_text()
    socket_directory = next(kungfu_run.temporary.iterdir())
    assert socket_directory.stat().st_mode & 0o777 == 0o700
    launch.process.terminate()
    assert launch.wait() == 143


def test_two_hosts(kungfu_run: "Jobs") -> None:
    addresses = ("127.0.0.2", "127.0.0.3")
    first, second = ports.take(2)
    program = "print(' '.join(os.environ['KUNGFU_' + n] for n in ('JOB_ID', 'SECRET', 'PEERS')))"
    hosts = ("-H", "127.0.0.2:2,127.0.0.3:2", "-np", "3", "-port-range", f"{first}-{second}")
    secret = {"KUNGFU_SECRET": "correct horse battery staple"}
    launches = [
        kungfu_run(*hosts, "-self", address, *PYTHON, RANK + program, **secret)
        for address in addresses
    ]
    assert [launch.wait() for launch in launches] == [0, 0]
    assert len(launches[0].out.splitlines()) == 2
    lines = launches[0].out.splitlines() + launches[1].out.splitlines()
    prefixes, rests = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert sorted(prefixes) == ["[127.0.0.2:0]", "[127.0.0.2:1]", "[127.0.0.3:2]"]
    assert len(set(rests)) == 1
    assert f"127.0.0.2:{first},127.0.0.2:{second},127.0.0.3:{first}" in rests[0]


def test_two_hosts_without_a_secret_are_refused(kungfu_run: "Jobs") -> None:
    launch = kungfu_run("-H", "127.0.0.2:1,127.0.0.3:1", "-np", "2", "-self", "127.0.0.2", "true")
    assert launch.wait() == 2
    assert "KUNGFU_SECRET_FILE" in launch.err


def test_the_launcher_needs_the_standard_library_only(kungfu_run: "Jobs") -> None:
    script = """
import sys, kungfu_tf.launcher.command.kungfu_run
names = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(sorted(names - {'__main__'}))
"""
    launch = kungfu_run(sys.executable, "-S", "-c", script)
    assert launch.wait() == 0
    assert launch.out == "[0] ['kungfu_tf']\n"


def test_importing_us_opens_no_socket_and_starts_no_thread(kungfu_run: "Jobs") -> None:
    program = """
import kungfu_tf
folder = os.open("/proc/self/fd", os.O_RDONLY)
sockets = [fd for fd in os.listdir(folder) if os.path.exists(f"/proc/self/fd/{fd}")
           and os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")]
finders = [type(finder).__name__ for finder in sys.meta_path]
print(len(os.listdir("/proc/self/task")), sockets, "tensorflow" in sys.modules, finders[0])
"""
    launch = kungfu_run("-np", "2", *PYTHON, RANK + program)
    assert launch.wait() == 0
    # It waits for TensorFlow, to share its large tensors.
    assert sorted(launch.out.splitlines()) == [
        f"[{rank}] 1 [] False _WaitForTensorFlow" for rank in range(2)
    ]


def test_errors_and_help(kungfu_run: "Jobs") -> None:
    wrong, helped = kungfu_run("-np", "x", "true"), kungfu_run("--help")
    assert wrong.wait() == 2
    assert wrong.err.startswith("kungfu-run: -np: 'x' is not")
    assert helped.wait() == 0
    assert helped.out.startswith("usage: kungfu-run")
    for code in (2, 124, 126, 127, 130, 143):
        assert re.search(rf"\b{code}\b", helped.out.partition("Exit code:")[2])


def test_logs_quietly(kungfu_run: "Jobs", tmp_path: Path) -> None:
    program = "print('to out')\nprint('to err', file=sys.stderr)\nsys.exit(4)"
    logs = ("-q", "-logdir", str(tmp_path / "logs"), "-logfile", str(tmp_path / "all.log"))
    launch = kungfu_run(*logs, *PYTHON, RANK + program)
    assert launch.wait() == 4
    assert launch.out == ""
    assert all(line.startswith("kungfu-run: ") for line in launch.err.splitlines())
    assert (tmp_path / "logs" / "rank-0.stdout.log").read_text() == "to out\n"
    assert (tmp_path / "logs" / "rank-0.stderr.log").read_text() == "to err\n"
    log = (tmp_path / "all.log").read_text()
    assert "[0] to out\n" in log
    assert "failed first: exit code 4" in log
