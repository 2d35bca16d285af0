"""The directory of the Unix sockets of a host's peers, if `kungfu-run` has not made one."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import shutil
import tempfile
from pathlib import Path

_LONGEST_FOLDER = 32  # the paths of Unix sockets must be short


def make(job: str, secret: str) -> Path:
    """Makes the directory of a job, which is the same for all its peers of a host.

    Args:
        job: The id of the job.
        secret: The secret of the job, so that others cannot guess the name.
    """
    name = hmac.new(secret.encode(), job.encode(), hashlib.sha256).hexdigest()[:16]
    path = _folder() / f"kungfu_tf-{name}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def leave(folder: Path, port: int) -> None:
    """Removes what the peer at `port` has left there, and the directory after the last one."""
    (folder / f"{port}.lock").unlink(missing_ok=True)
    if not any(map(_is_held, folder.glob("*.lock"))):
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    folder = Path(tempfile.gettempdir())
    return folder if len(str(folder)) <= _LONGEST_FOLDER else Path("/tmp")


def _is_held(lock: Path) -> bool:
    """Whether the process whose lock this is still runs."""
    try:
        with lock.open("r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
