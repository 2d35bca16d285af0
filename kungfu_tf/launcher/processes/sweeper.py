"""Ends every process of a job, even one that a shell has left behind or that has called setsid.

Processes are found by KUNGFU_RUNNER in their first environment, by the session that each peer
leads, and by descent. The session counts because a process may overwrite its environment to set its
title. The launcher sweeps at the end of a job. It may be killed before. So it starts this file as a
program, in a session of its own, with a pipe as standard input. When the pipe ends, the launcher is
gone. Then the sweeper does the same, and removes the job's directory.

On the pipe, a line `+123` adds session 123 to the job and `-123` takes it away again.

The file stands alone, so that it can run as `python -I -S sweeper.py RUNNER DIRECTORY`.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable

GRACE = 1.0  # from SIGTERM to SIGKILL
DEADLINE = 30.0  # seconds after which it does not wait for the kernel any more
_INTERVAL = 0.02


def members(runner: str, sessions: Collection[int] = ()) -> dict[int, str]:
    """The living processes of a runner: the command line of each pid.

    Args:
        runner: The value of KUNGFU_RUNNER.
        sessions: The sessions of the job's peers.
    """
    marker = f"KUNGFU_RUNNER={runner}".encode()
    living = _living()
    found = {
        pid
        for pid, (_, session) in living.items()
        if session in sessions or marker in _read(pid, "environ").split(b"\0")
    }
    grown = True
    while grown:
        more = {pid for pid, (parent, _) in living.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return {pid: _command(pid) for pid in found - {os.getpid()}}


def is_empty(session: int) -> bool:
    """Whether no living process belongs to a session, so that its number may be used again."""
    return all(other != session for _, other in _living().values())


def sweep(
    find: Callable[[], Iterable[int]], *, grace: float = GRACE, deadline: float = DEADLINE
) -> bool:
    """Ends the processes that `find` returns until it returns none. False: not in time."""
    began = time.monotonic()
    asked: set[int] = set()
    while alive := set(find()):
        elapsed = time.monotonic() - began
        if elapsed > deadline:
            return False
        if elapsed > grace:
            _signal(alive, signal.SIGKILL)
        else:
            _signal(alive - asked, signal.SIGTERM)
            asked |= alive
        time.sleep(_INTERVAL)
    return True


def main(arguments: list[str]) -> int:
    """The program: waits for the launcher's end, then sweeps."""
    runner, directory = arguments
    for ignored in ("INT", "TERM", "HUP", "USR1", "USR2", "QUIT"):
        signal.signal(signal.Signals[f"SIG{ignored}"], signal.SIG_IGN)
    sessions: set[int] = set()
    for line in sys.stdin:
        session = int(line[1:])
        sessions = sessions | {session} if line[0] == "+" else sessions - {session}
    clean = sweep(lambda: members(runner, sessions))
    shutil.rmtree(directory, ignore_errors=True)
    return 0 if clean else 1


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or is now another user's
            os.kill(pid, number)


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _living() -> dict[int, tuple[int, int]]:
    """Every process that is no zombie: for each pid its parent and its session."""
    result = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        if fields and fields[0] not in (b"Z", b"X"):
            result[pid] = (int(fields[1]), int(fields[3]))
    return result


def _command(pid: int) -> str:
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
