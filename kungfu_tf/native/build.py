"""Compiles the op library, libkungfu_ops-<TensorFlow's major.minor>.so.

setup.py calls `build_op_library`; `libraries.py` calls `cached_op_library` if the package has no
library for the running TensorFlow. As setup.py loads this module by its path, it imports neither
TensorFlow nor the rest of kungfu_tf.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import mmap
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CORE_NAME = "libkungfu.so.1"
MARKER = re.compile(rb"kungfu_ops_build:tensorflow=([0-9A-Za-z.+-]+) key=([0-9a-f]+);")
IMPORT_TIMEOUT = 300.0

_QUERY = """
import json, tensorflow as tf
print(json.dumps([tf.__version__, tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()]))
"""


class BuildError(Exception):
    """The op library cannot be built; the message says why and what to do."""


@dataclass(frozen=True)
class TensorFlow:
    """The properties of a TensorFlow that are needed to compile for it."""

    version: str
    compile_flags: list[str]
    link_flags: list[str]


@dataclass(frozen=True)
class Marker:
    """The description that an op library contains of itself."""

    tensorflow: str
    key: str


class Deadline:
    """A time some seconds from now."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._end = time.monotonic() + timeout

    @property
    def left(self) -> float:
        """The seconds until then; 0 once it has passed."""
        return max(0.0, self._end - time.monotonic())


def minor_version(version: str) -> str:
    """ "2.21" of "2.21.0-rc1"."""
    return ".".join(version.split(".")[:2])


def library_name(tensorflow_version: str) -> str:
    return f"libkungfu_ops-{minor_version(tensorflow_version)}.so"


def read_marker(library: Path) -> Marker | None:
    """Reads the marker of a library without loading it; None if there is none."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            found = MARKER.search(data)
            return Marker(found[1].decode(), found[2].decode()) if found else None
    except (OSError, ValueError):  # no file, an empty file
        return None


def query_tensorflow(python: str) -> TensorFlow:
    """Asks the TensorFlow that `python` imports, isolated from the caller's environment.

    Raises:
        BuildError: If it cannot import one.
    """
    try:
        result = subprocess.run(
            [python, "-I", "-c", _QUERY],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=IMPORT_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"{python} has not imported tensorflow in {IMPORT_TIMEOUT:g} s") from None
    if result.returncode != 0:
        raise BuildError(f"{python} cannot import tensorflow:\n{result.stderr}")
    return TensorFlow(*json.loads(result.stdout.splitlines()[-1]))


def build_op_library(
    output_dir: Path,
    *,
    python: str = sys.executable,
    core_dir: Path,
    source_dir: Path,
    tensorflow: TensorFlow | None = None,
    compiler: str = "",
    timeout: float = 600.0,
) -> Path:
    """Builds the op library in `output_dir`, unless it is there with the same sources and flags.

    Args:
        output_dir: The folder for it.
        python: The interpreter whose TensorFlow it is for.
        core_dir: The directory of libkungfu.so.1, against which it is linked.
        source_dir: The directory of `ops/`.
        tensorflow: The TensorFlow that it is for. Default: `python` is asked.
        compiler: A command; default CXX, then the first of g++, c++, clang++.
        timeout: Seconds for all of it.

    Returns:
        Its path.

    Raises:
        BuildError: If there is no compiler or no TensorFlow, or it does not compile in time.
    """
    deadline = Deadline(timeout)
    tensorflow = tensorflow or query_tensorflow(python)
    command = find_compiler(compiler)
    key = build_key(tensorflow, command, source_dir)
    library = output_dir / library_name(tensorflow.version)
    if read_marker(library) != Marker(tensorflow.version, key):
        output_dir.mkdir(parents=True, exist_ok=True)
        _build(library, tensorflow, command, key, core_dir, source_dir, deadline)
    return library


def cached_op_library(
    cache_dir: Path,
    *,
    core_dir: Path,
    source_dir: Path,
    tensorflow: TensorFlow,
    compiler: str = "",
    timeout: float = 600.0,
) -> Path:
    """The op library from the cache; it is compiled first if it is not there.

    Of several processes only one compiles it, with a message on stderr.

    Args:
        cache_dir: The folder of the cache; it is created if missing, for its owner only.
        core_dir: As for `build_op_library`.
        source_dir: The directory of `ops/`.
        tensorflow: The TensorFlow that the library is for.
        compiler: As for `build_op_library`.
        timeout: Seconds for all of it, even for waiting while another process compiles.

    Raises:
        BuildError: As from `build_op_library`; or if the folder belongs to another user.
    """
    deadline = Deadline(timeout)
    command = find_compiler(compiler)
    key = build_key(tensorflow, command, source_dir)
    directory = cache_dir / key
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"cannot make the cache of op libraries, {directory}: {error}; KUNGFU_CACHE_DIR may "
            "name another place"
        ) from error
    # Code is loaded from here: no other user may have put it there.
    if directory.stat().st_uid != os.geteuid():
        raise BuildError(f"the cache of op libraries, {directory}, belongs to another user")
    library = directory / library_name(tensorflow.version)
    wanted = Marker(tensorflow.version, key)
    if read_marker(library) == wanted:
        return library
    with _locked(directory / "lock", deadline):
        if read_marker(library) != wanted:
            print(
                f"kungfu_tf: compiling the ops for TensorFlow {tensorflow.version}, once",
                file=sys.stderr,
                flush=True,
            )
            _build(library, tensorflow, command, key, core_dir, source_dir, deadline)
    return library


def find_compiler(compiler: str = "") -> list[str]:
    """The command of the C++ compiler.

    Raises:
        BuildError: If there is none.
    """
    command = shlex.split(compiler or os.environ.get("CXX", ""))
    if command:
        if shutil.which(command[0]) is None:
            raise BuildError(f"the C++ compiler '{command[0]}' (CXX) does not exist")
        return command
    for name in ("g++", "c++", "clang++"):
        if shutil.which(name):
            return [name]
    raise BuildError(
        "the ops must be compiled for this TensorFlow, and there is no C++ compiler: install g++ "
        "(Debian, Ubuntu: apt install g++) or set CXX (kungfu_tf docs: messages#no-compiler)"
    )


def build_key(tensorflow: TensorFlow, compiler: list[str], source_dir: Path) -> str:
    """A digest of everything that the library depends on."""
    version = _run([*compiler, "--version"], Deadline(60.0))
    digest = hashlib.sha256()
    parts = [tensorflow.version, *_flags(tensorflow), *tensorflow.link_flags, *compiler]
    for part in [*parts, version]:
        digest.update(part.encode() + b"\0")
    for source in _sources(source_dir, "*"):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:32]


def _sources(source_dir: Path, pattern: str) -> list[Path]:
    ops = source_dir / "ops"
    found = sorted([*(ops / "tensorflow").glob(pattern), *(ops / "c_api").glob("*.h")])
    return [path for path in found if path.is_file() and path.match(pattern)]


def _flags(tensorflow: TensorFlow) -> list[str]:
    # -isystem, because TensorFlow's headers cause pages of warnings.
    return [
        *(re.sub("^-I", "-isystem", flag) for flag in tensorflow.compile_flags),
        *("-O2", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter"),
        *("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    ]


def _build(
    library: Path,
    tensorflow: TensorFlow,
    compiler: list[str],
    key: str,
    core_dir: Path,
    source_dir: Path,
    deadline: Deadline,
) -> None:
    # In the same directory, so that the result can be renamed into its place.
    with tempfile.TemporaryDirectory(prefix=".build-", dir=library.parent) as directory:
        scratch = Path(directory)
        # As one file: TensorFlow's headers take longer to compile than what includes them.
        everything = scratch / "ops.cc"
        sources = _sources(source_dir, "*.cc")
        everything.write_text("".join(f'#include "{source}"\n' for source in sources))
        built = scratch / library.name
        build = f'-DKUNGFU_OPS_BUILD="tensorflow={tensorflow.version} key={key}"'
        compile_ = [*_flags(tensorflow), build, f"-I{source_dir}", str(everything)]
        exports = source_dir / "ops" / "tensorflow" / "exports.map"
        link = ["-shared", "-o", str(built), *tensorflow.link_flags]
        # No path to the core: it is found by its name among the libraries that are already loaded.
        core = [f"-L{core_dir}", f"-l:{CORE_NAME}", f"-Wl,--version-script={exports}"]
        _run([*compiler, *compile_, *link, *core, "-Wl,-z,defs"], deadline)
        os.replace(built, library)


def _run(command: list[str], deadline: Deadline) -> str:
    """Returns the output of a command, which is killed at the deadline."""
    try:
        result = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=deadline.left,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"not ready after {deadline.timeout:g} s: {shlex.join(command)}") from None
    if result.returncode != 0:
        raise BuildError(
            f"{command[0]} failed with code {result.returncode}: {shlex.join(command)}\n"
            f"{result.stdout[-8000:]}"
        )
    return result.stdout


@contextlib.contextmanager
def _locked(path: Path, deadline: Deadline) -> Iterator[None]:
    """Holds the lock of a file, which the system releases if the process ends."""
    with path.open("wb") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not deadline.left:
                    raise BuildError(
                        f"another process has held {path} for {deadline.timeout:g} s: it should be "
                        "compiling"
                    ) from None
                time.sleep(0.1)  # flock itself has no timeout
        yield
