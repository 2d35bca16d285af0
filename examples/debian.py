"""What the examples fetch with the tools of the machine: in limited time, without root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SECONDS = 90  # of one command


def unpack(package: str, directory: Path) -> None:
    """Fetches a package of Debian and unpacks it in a directory. It is not installed.

    Raises:
        OSError: It cannot be had; the text says why in one line.
    """
    run("sh", "-c", 'cd "$0" && apt-get download "$1"', str(directory), package)
    archives = list(directory.glob("*.deb"))
    if len(archives) != 1:
        raise OSError(f"apt-get has fetched {len(archives)} packages for {package}")
    run("dpkg", "-x", str(archives[0]), str(directory))


def run(*command: str, **environment: str) -> None:
    """Runs a command, silently.

    Raises:
        OSError: It cannot be run, fails or takes too long; the text says why in one line.
    """
    options = {"capture_output": True, "text": True, "timeout": SECONDS}
    try:
        subprocess.run(command, check=True, env={**os.environ, **environment}, **options)
    except subprocess.TimeoutExpired:
        raise OSError(f"{command[0]} took more than {SECONDS} s") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise OSError(f"{command[0]}: {said[-1]}") from error
