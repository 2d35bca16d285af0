"""What op libraries are compiled with, of TensorFlows that are not installed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from machines import Machine

from kungfu_tf.native.build import TensorFlow

# The last of each minor version, for all of which one op library serves.
VERSIONS = ("2.15.1", "2.16.2", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0")
# The same in all of them: tests/wheels/run.py compares it with what an installed one says.
FLAGS = ["-D_GLIBCXX_USE_CXX11_ABI=1", "--std=c++17", "-DEIGEN_MAX_ALIGN_BYTES=64"]

INCLUDE = "tensorflow/include/"
FRAMEWORK = "tensorflow/libtensorflow_framework.so.2"
# A Python that each of them has a wheel for: headers do not depend on it.
PYTHON = "3.11"
GLIBC = 27  # a minor version that some of them need
TIMEOUT = 1800.0  # seconds for a download of 250 MB


def fetch(version: str, machine: Machine, directory: Path) -> TensorFlow:
    """Describes a TensorFlow, whose headers and library are put into `directory` first.

    They are about 250 MB, and stay for the next time.
    """
    tensorflow = directory / f"tensorflow-{version}"
    if not tensorflow.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch:
            _unpack(_download(version, machine, Path(scratch)), Path(scratch) / "unpacked")
            (Path(scratch) / "unpacked").rename(tensorflow)
    include, library = tensorflow / INCLUDE, tensorflow / FRAMEWORK
    link_flags = [f"-L{library.parent}", f"-l:{library.name}"]
    return TensorFlow(version, [f"-I{include}", *FLAGS], link_flags)


def _download(version: str, machine: Machine, directory: Path) -> Path:
    """The path of its wheel."""
    print(f"downloading TensorFlow {version}, for its headers", flush=True)
    options = ["--quiet", "--no-deps", "--only-binary=:all:", f"--python-version={PYTHON}"]
    options += [*machine.platforms(GLIBC), f"--dest={directory}", machine.package(version)]
    command = [sys.executable, "-m", "pip", "download", *options]
    subprocess.run(command, check=True, timeout=TIMEOUT)
    return next(directory.glob("*.whl"))


def _unpack(wheel: Path, directory: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(
            directory, [name for name in names if name.startswith(INCLUDE) or name == FRAMEWORK]
        )
