"""The program of -host-discovery-script, which prints the hosts that can take peers now."""

import os
import subprocess
import time
from collections.abc import Callable

from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing.hosts import Host, parse_hosts

_INTERVAL = 1.0
_LONGEST = 10.0  # seconds that it may take
_AT_ONCE = 64 << 10
_FAILED = "ends with an error"
_WHAT = "-host-discovery-script"


def ask(command: str) -> list[Host]:
    """Runs the program, and returns the hosts that it prints: a line `host[:slots]` for each.

    Raises:
        LaunchError: If it fails, takes too long, or prints something else.
    """
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command], stdout=subprocess.PIPE, timeout=_LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        raise LaunchError(f"{_WHAT}: '{command}' takes longer than {_LONGEST:g} s") from None
    if done.returncode:
        raise LaunchError(f"{_WHAT}: '{command}' {_FAILED}")
    return _parse(done.stdout)


def _parse(printed: bytes) -> list[Host]:
    lines = [line.strip() for line in printed.decode(errors="replace").splitlines()]
    return parse_hosts(",".join(filter(None, lines)), _WHAT)


class HostScript:
    """Asks the program once per second. For the event loop's thread only.

    Args:
        command: The program.
        offer: Called with its hosts. It may get the same ones again.
        say: Prints a line for the user.
    """

    def __init__(
        self, command: str, offer: Callable[[list[Host]], None], say: Callable[[str], None]
    ) -> None:
        self._command = command
        self._offer = offer
        self._say = say
        self._began = -_INTERVAL
        self._process: subprocess.Popen[bytes] | None = None
        self._printed = b""
        self._problem: str | None = None

    def advance(self) -> None:
        """Does the work that is due."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._began + _INTERVAL:
                self._start(now)
        elif self._has_ended(self._process):
            self._take(self._printed)
        elif now > self._began + _LONGEST:
            self.close()
            self._complain(f"it takes longer than {_LONGEST:g} s")

    def close(self) -> None:
        """Ends the program."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _start(self, now: float) -> None:
        self._began, self._printed = now, b""
        # The runner reaps all children, so the shell tells of a failure.
        command = f"({self._command}\n) || echo '{_FAILED}'"
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command], bufsize=0, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _has_ended(self, process: subprocess.Popen[bytes]) -> bool:
        """Reads what the program has printed."""
        assert process.stdout is not None
        while read := process.stdout.read(_AT_ONCE):
            self._printed = (self._printed + read)[-_AT_ONCE:]
        if read is None:
            return False
        process.stdout.close()
        process.poll()
        self._process = None
        return True

    def _take(self, printed: bytes) -> None:
        try:
            if printed.rstrip().endswith(_FAILED.encode()):
                raise LaunchError(f"'{self._command}' {_FAILED}")
            hosts = _parse(printed)
        except LaunchError as error:
            self._complain(str(error))
        else:
            self._problem = None
            self._offer(hosts)

    def _complain(self, problem: str) -> None:
        """Says a problem once, until there is another one or none."""
        if problem != self._problem:
            self._problem = problem
            self._say(f"the hosts stay as they are, because of {_WHAT}: {problem}")
