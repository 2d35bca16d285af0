"""Real jobs under kungfu-run, and what must be true after each of them."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.fault.hosts import Hosts, two_hosts
from tests.waiting import DEADLINE, until

REPOSITORY = Path(__file__).parents[2]

# A shell that runs the tests in the background makes them ignore the one, nohup the other; and with
# them what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Launch:
    """A running kungfu-run, whose output goes to files."""

    def __init__(
        self,
        folder: Path,
        arguments: tuple[str, ...],
        environ: dict[str, str],
        through: Sequence[str],
    ) -> None:
        self.folder = folder
        self._stdout, self._stderr = folder / "stdout", folder / "stderr"
        with open(self._stdout, "wb") as out, open(self._stderr, "wb") as err:
            self.process = subprocess.Popen(
                [*through, sys.executable, "-m", "kungfu_tf.launcher", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environ,
                cwd=folder,
            )

    @property
    def out(self) -> str:
        return self._stdout.read_text()

    @property
    def err(self) -> str:
        return self._stderr.read_text()

    @property
    def complaints(self) -> list[str]:
        """The lines of standard error, but for the one on how cores are shared."""
        return [line for line in self.err.splitlines() if "kungfu-run: the peers share" not in line]

    def wait(self) -> int:
        """The exit code."""
        return self.process.wait(DEADLINE)

    def until_said(self, text: str) -> None:
        until(lambda: text in self.err, lambda: f"'{text}' in {self.err!r}")

    def until_printed(self, text: str, times: int = 1) -> None:
        until(
            lambda: self.out.count(text) >= times,
            lambda: f"{times} x '{text}' in {self.out!r}, {self.err!r}",
        )


class Jobs:
    """Starts jobs for one test; all that they start carries a mark in its environment."""

    until = staticmethod(until)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Short, as a socket's path must be.
        self.temporary = Path(tempfile.mkdtemp(prefix="kf"))
        self._mark = f"TEST_MARK={uuid.uuid4()}"
        self.launches: list[Launch] = []

    def __call__(
        self,
        *arguments: str,
        namespace: str | None = None,
        through: Sequence[str] = (),
        **environ: str,
    ) -> Launch:
        """`namespace`: the network namespace to start in; `through`: the command that starts it."""
        if namespace is not None:
            through = ("ip", "netns", "exec", namespace, *through)
        folder = self.folder / f"launch-{len(self.launches)}"
        folder.mkdir()
        name, _, value = self._mark.partition("=")
        inherited = {key: value for key, value in os.environ.items() if "KUNGFU" not in key}
        own = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(self.temporary), name: value}
        launch = Launch(
            folder, arguments, {**inherited, **own, "KUNGFU_GRACE": "2", **environ}, through
        )
        self.launches.append(launch)
        return launch

    def living(self) -> dict[int, str]:
        """All processes of the test's jobs, sweepers and launchers included: pid → command."""
        result = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if command and (self._mark.encode() in environ or str(self.temporary) in command):
                result[int(entry.name)] = command
        return result

    def nothing_remains(self) -> None:
        until(lambda: not self.living(), lambda: f"the end of {self.living()}")
        until(lambda: not list(self.temporary.iterdir()), lambda: f"{self.temporary} is empty")

    def clean(self) -> None:
        for launch in self.launches:
            launch.process.kill()
            launch.process.wait(DEADLINE)
        for pid in self.living():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.temporary, ignore_errors=True)


@pytest.fixture
def kungfu_run(tmp_path: Path) -> Iterator[Jobs]:
    """Call it with kungfu-run's arguments; at the end nothing of the jobs may remain."""
    jobs = Jobs(tmp_path)
    try:
        yield jobs
        for launch in jobs.launches:
            launch.wait()
        jobs.nothing_remains()
    finally:
        jobs.clean()


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with two_hosts() as made:
        yield made
