"""A Python for aarch64, with TensorFlow, that qemu runs on this machine.

Its files are Debian's and PyPI's, in one folder: nothing is installed on this machine, and root is
not needed. The folder takes 2 GB, of a download of 500 MB, and stays for the next time.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from machines import MACHINES

MACHINE = MACHINES["aarch64"]
SUITE, ARCHITECTURE, PYTHON = "bookworm", "arm64", "3.11"
GLIBC = range(18, 37)  # the minor versions of glibc that wheels may need there
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
EMULATOR = "qemu-aarch64"
PROGRAMS = (EMULATOR, "apt-get", "dpkg-deb", MACHINE.tool("g++"))
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
TIMEOUT = 1800.0  # seconds for a download, on a slow machine that has other things to do


def missing() -> str:
    """What this machine lacks; an empty text if it lacks nothing."""
    programs = [name for name in PROGRAMS if shutil.which(name) is None]
    return ", ".join([*programs, *([] if KEYS.exists() else [str(KEYS)])])


class Environment:
    """A folder with the files of Debian's Python and a TensorFlow, made unless it is there."""

    def __init__(self, directory: Path, tensorflow: str) -> None:
        self._root = directory / f"{MACHINE.name}-tensorflow-{tensorflow}"
        if self._root.is_dir():
            return
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".make-", dir=directory) as scratch:
            root = Path(scratch) / "root"
            _unpack_debian(root, Path(scratch) / "apt")
            _install(root, MACHINE.package(tensorflow), "cloudpickle")
            root.rename(self._root)

    @property
    def python(self) -> Path:
        """A command for the interpreter. It is `sys.executable` there, so it starts others, too."""
        programs = self._root / "usr" / "bin"
        command = programs / "emulated-python"
        emulate = [EMULATOR, "-L", str(self._root), "-0", str(command)]
        words = shlex.join([*emulate, str(programs / f"python{PYTHON}")])
        command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        command.chmod(0o755)
        return command

    def install(self, wheel: Path) -> None:
        """Installs a wheel without what it needs, in place of another version."""
        _install(self._root, "--no-deps", "--upgrade", str(wheel))


def _install(root: Path, *arguments: str) -> None:
    """Lets pip install wheels with these arguments, for the Python of a folder."""
    target = root / "usr" / "lib" / "python3" / "dist-packages"
    options = ["--only-binary=:all:", f"--python-version={PYTHON}", f"--target={target}"]
    command = [*PIP, *options, *MACHINE.platforms(*GLIBC), *arguments]
    subprocess.run(command, check=True, timeout=TIMEOUT)


def _unpack_debian(root: Path, apt: Path) -> None:
    """Unpacks Debian's Python and C++ library, and what they need."""
    (apt / "lists" / "partial").mkdir(parents=True)
    (apt / "archives" / "partial").mkdir(parents=True)
    (apt / "status").touch()  # nothing is installed
    (apt / "sources.list").write_text(
        f"deb [signed-by={KEYS}] http://deb.debian.org/debian {SUITE} main\n"
    )
    settings = {
        "APT::Architecture": ARCHITECTURE,
        "APT::Architectures": ARCHITECTURE,
        "APT::Sandbox::User": "",  # another user could not read the folder
        "Dir::State": apt,
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt,
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "-",
    }
    get = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    download = ["install", "--yes", "--download-only", "--no-install-recommends"]
    subprocess.run([*get, "update"], check=True, timeout=TIMEOUT)
    packages = [f"python{PYTHON}", "libstdc++6"]
    subprocess.run([*get, *download, *packages], check=True, timeout=TIMEOUT)
    for package in (apt / "archives").glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True, timeout=TIMEOUT)
