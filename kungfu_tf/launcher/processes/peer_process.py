"""The process of a peer: its start, its pipes, and its end."""

import contextlib
import ctypes
import errno
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence, Set
from typing import IO

from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing.cluster import Peer

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def raise_descriptor_limit() -> tuple[int, int]:
    """Allows as many open files as possible. Returns the previous limits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft, hard


def end_with(parent: int) -> None:
    """Lets the kernel kill this process when `parent`, which started it, ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class PeerProcess:
    """A peer in a session of its own. The kernel kills it with the launcher.

    Args:
        peer: The peer.
        command: Its command.
        env: Its environment.
        cores: The cores that it stays on; None: it may run on any.
        descriptors: Its limits of open files.
        inherited: Descriptors of the launcher that it inherits.
    """

    def __init__(
        self,
        peer: Peer,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        cores: Set[int] | None,
        descriptors: tuple[int, int],
        inherited: Sequence[int] = (),
    ) -> None:
        self.peer = peer
        self.started = time.monotonic()
        self.ended: float | None = None
        self.code: int | None = None
        launcher = os.getpid()

        def prepare() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)
            if cores is not None:
                with contextlib.suppress(OSError):  # a core may not be available any more
                    os.sched_setaffinity(0, cores)
            end_with(launcher)

        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=env,
                pass_fds=inherited,
                start_new_session=True,
                preexec_fn=prepare,
            )
        except OSError as error:
            missing = error.errno == errno.ENOENT
            program, path = command[0], env.get("PATH")
            advice = ""
            if program.endswith(".py") and os.path.isfile(program):
                advice = f"; python {program}?"
            elif missing and "/" not in program and shutil.which(program, path=path) is None:
                advice = "; no directory of the PATH has it"
            raise LaunchError(
                f"cannot start '{program}': {error.strerror}{advice}",
                exit_code=127 if missing else 126,
            ) from None
        for pipe in self.pipes.values():
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self.code is None

    @property
    def failed(self) -> bool:
        return self.code is not None and self.code != 0

    @property
    def pipes(self) -> dict[str, IO[bytes]]:
        assert self._process.stdout is not None and self._process.stderr is not None
        return {"stdout": self._process.stdout, "stderr": self._process.stderr}

    def signal(self, number: int) -> None:
        """Sends a signal to the process and its group where that is allowed, as a terminal does."""
        if self.running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def record_end(self, wait_status: int, now: float) -> None:
        """Notes that the process has ended. `wait_status` is the one from waitpid."""
        self.code = os.waitstatus_to_exitcode(wait_status)
        self.ended = now
        self._process.returncode = self.code  # subprocess must not wait for it again


def describe(code: int) -> str:
    """ "exit code 1", "killed by SIGKILL"."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def exit_code(code: int) -> int:
    """The exit code as shells have it: 128 + n for signal n."""
    return code if code >= 0 else 128 - code
