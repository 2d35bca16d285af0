"""The launcher's handle on its sweeper."""

import contextlib
import subprocess
import sys

from kungfu_tf.launcher.processes import sweeper
from kungfu_tf.launcher.processes.run_directory import RunDirectory


class Guard:
    """A sweeper that runs until the launcher leaves this context, or is killed.

    Then it ends the remaining processes of the job and removes its directory.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._sessions: set[int] = set()
        self._process = self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, session: int) -> None:
        """Counts a peer's session as part of the job."""
        self._sessions.add(session)
        self._send(f"+{session}\n")

    def forget(self, session: int) -> None:
        """Called when a session's leader has ended. Without other processes it is forgotten."""
        if sweeper.is_empty(session):
            self._sessions.discard(session)
            self._send(f"-{session}\n")

    def left_behind(self) -> dict[int, str]:
        """The living processes of the job: the command line of each pid."""
        return sweeper.members(self._directory.runner, self._sessions)

    def restart(self, code: int) -> None:
        """Starts the sweeper again after it was killed. `code` is its exit code."""
        self._process.returncode = code
        self._process.communicate()
        self._process = self._start()
        for session in self._sessions:
            self._send(f"+{session}\n")

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):  # it goes on without us
            self._process.communicate(timeout=sweeper.DEADLINE + 5)

    def _start(self) -> subprocess.Popen[str]:
        directory = self._directory
        # An environment without the job's marker and secrets: only the pipe ties it to the job.
        return subprocess.Popen(
            [sys.executable, "-I", "-S", sweeper.__file__, directory.runner, directory.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            env={},
            cwd="/",
            start_new_session=True,
        )

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has been killed: its end is being reported, and restart() sends all again
