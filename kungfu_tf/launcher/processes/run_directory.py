"""The private directory of a runner: its control socket and the Unix sockets of its peers."""

import dataclasses
import glob
import os
import secrets
import tempfile
from pathlib import Path

from kungfu_tf import config
from kungfu_tf.launcher.options.launch_error import LaunchError

# A Unix socket's path has at most 107 bytes; peers need about 50 for a name.
_LONGEST = 56
_PREFIX = "kungfu-"


@dataclasses.dataclass(frozen=True)
class RunDirectory:
    """A run directory. `runner` names the launcher in the environment of its processes."""

    path: str
    runner: str

    @property
    def control(self) -> str:
        return os.path.join(self.path, "control.sock")

    @property
    def debug_token(self) -> str:
        return os.path.join(self.path, "debug-token")

    @property
    def cluster(self) -> str:
        """The cluster document of a job that may change, on its first host."""
        return os.path.join(self.path, "cluster.json")

    @property
    def job(self) -> str:
        """A file with the runner's process and the job's command."""
        return os.path.join(self.path, "job.json")

    @property
    def progress(self) -> int | None:
        """The progress of the peers when they left, if they have written it."""
        try:
            return int(Path(self.path, config.PROGRESS_FILE).read_text())
        except (OSError, ValueError):
            return None

    def epochs(self, peers: int) -> int:
        """How many epochs all of so many peers have told that they have ended."""
        told = [int(path.read_text()) for path in Path(self.path).glob(f"{config.EPOCHS_FILE}*")]
        return min(told, default=0) if len(told) == peers else 0

    @property
    def config_token(self) -> str:
        return os.path.join(self.path, "config-token")

    def create(self) -> None:
        """Makes the directory. Raises LaunchError if that fails, or if it exists already."""
        try:
            os.mkdir(self.path, 0o700)
        except OSError as error:
            raise LaunchError(f"cannot make the directory {self.path}: {error.strerror}") from None


def choose() -> RunDirectory:
    """A new run directory in the temporary folder, or in /tmp if that path is too long."""
    return at(os.path.join(folder(), _PREFIX + secrets.token_hex(8)))


def at(path: str) -> RunDirectory:
    return RunDirectory(path, os.path.basename(path).removeprefix(_PREFIX))


def folder() -> str:
    """The folder of the run directories.

    Raises:
        LaunchError: No temporary folder can be written.
    """
    try:
        path = tempfile.gettempdir()
    except FileNotFoundError:
        raise LaunchError(
            "no temporary folder can be written, not $TMPDIR, /tmp, /var/tmp or the current one:"
            " set TMPDIR to a folder that can"
        ) from None
    longest = os.path.join(path, _PREFIX + secrets.token_hex(8))
    return path if len(os.fsencode(longest)) <= _LONGEST else "/tmp"


def all_here() -> list[RunDirectory]:
    """All run directories on this host, of any user."""
    return [at(path) for path in sorted(glob.glob(f"{glob.escape(folder())}/{_PREFIX}*"))]
