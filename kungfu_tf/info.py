"""`python -m kungfu_tf.info`: versions, libraries, limits, and every variable with its meaning.

It shows the current value of each, and which cannot be parsed. It starts no peer and does not
import TensorFlow.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import platform
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kungfu_tf import __version__, config, errors
from kungfu_tf.config import Setting
from kungfu_tf.environments import detection, job_secret
from kungfu_tf.native import build, environment
from kungfu_tf.native import libraries as native
from kungfu_tf.upstream import versions

_TENSORFLOW_DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu")
_KERAS_DISTRIBUTIONS = ("keras", "keras-nightly")
_VERSION = re.compile(r"""^__version__ = ["'](.+)["']$""", re.MULTILINE)


def main() -> int:
    """Prints all of it. Returns the exit code: 1 if a variable cannot be parsed."""
    for name, value in [*_versions(), *_libraries(), *_limits(), *_environment()]:
        print(f"{name:<12} {value}")
    settings = _settings()
    understood = True
    for title, internal in (
        ("Variables that you may set, and what is in force", False),
        ("Variables that the launcher sets, or another starter of peers", True),
    ):
        print(f"\n{title}")
        for setting in settings:
            if setting.internal == internal:
                understood &= _print(setting)
    for line in _others():
        print(f"  {line}")
    return 0 if understood else 1


def _versions() -> Iterator[tuple[str, str]]:
    yield "kungfu_tf", __version__
    yield "Python", f"{platform.python_version()}, {platform.platform()}"
    tensorflow = tensorflow_version()
    yield "TensorFlow", tensorflow or "not installed"
    yield from _refusal(versions.check_tensorflow, tensorflow)
    keras = keras_version("keras", _KERAS_DISTRIBUTIONS)
    yield "Keras", keras or "not installed"
    yield from _refusal(functools.partial(versions.check_keras, "keras"), keras)
    if legacy := keras_version("tf_keras", ("tf-keras",)):
        yield "tf-keras", legacy
        yield from _refusal(functools.partial(versions.check_keras, "tf_keras"), legacy)


def _refusal(check: Callable[[str], None], version: str | None) -> Iterator[tuple[str, str]]:
    """What a program that uses this version gets for an error; nothing if it can be used."""
    try:
        if version:
            check(version)
    except errors.UnsupportedVersionError as error:
        yield "", str(error)


def tensorflow_version() -> str | None:
    """The version of an installed TensorFlow, without importing it."""
    return _version_of(_TENSORFLOW_DISTRIBUTIONS)


def keras_version(package: str, distributions: tuple[str, ...]) -> str | None:
    """The version of the package that Python would import, without importing it.

    If two distributions contain the package, both have metadata, but the later one has replaced the
    files of the other. So the files decide.
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for file in (Path(folder, "src", "version.py"), Path(folder, "__init__.py")):
            if file.is_file() and (found := _VERSION.search(file.read_text())):
                return found[1]
    return _version_of(distributions)


def _version_of(distributions: tuple[str, ...]) -> str | None:
    for distribution in distributions:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _libraries() -> Iterator[tuple[str, str]]:
    path = native.LIBRARY_DIR / build.CORE_NAME
    try:
        core = native.core()
        core_version = core.kungfu_version().decode()
        yield "core", f"{core_version}, interface {core.kungfu_abi_version()}: {path}"
    except errors.LibraryError as error:
        yield "core", str(error)
    libraries = native.op_libraries()
    for library, built_for in libraries.items():
        yield "ops", f"for TensorFlow {built_for}: {library}"
    minors = {build.minor_version(built_for) for built_for in libraries.values()}
    version = tensorflow_version()
    is_missing = version and build.minor_version(version) not in minors
    if is_missing and not list(_refusal(versions.check_tensorflow, version)):
        yield "ops", f"for TensorFlow {version}: compiled at first use, in {_cache()}"


def _cache() -> str:
    try:
        return str(config.CACHE_DIR.get())
    except RuntimeError as error:  # a user has no home
        return f"none, {error}"


def _limits() -> Iterator[tuple[str, str]]:
    descriptors, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield "transports", "shared memory between peers of a host, or Unix sockets"
    yield "", "TCP over IPv4 or IPv6 between hosts"
    try:
        longest = native.core().kungfu_longest_name()
        yield "limits", f"{longest} bytes of an operation's name"
    except errors.LibraryError:
        yield "limits", "that of names is known to the core only, which is missing"
    yield "", f"{descriptors} open files of a process (ulimit -n; at most {most})"
    yield "", f"{len(os.sched_getaffinity(0))} cores for this process"


def _environment() -> Iterator[tuple[str, str]]:
    """What has started this process together with others, and how it is known."""
    try:
        if reason := detection.nothing_to_do(os.environ):
            yield "started by", reason
            return
        place = detection.detect(os.environ)
        if place is None:
            yield "started by", "kungfu-run" if config.identity().peer else "nothing that has peers"
            if not config.identity().peer and (doubt := detection.doubt(os.environ)):
                yield "", f"but {doubt}"
            return
        yield "started by", f"{place.told(os.environ)}: rank {place.rank} of {place.size}"
        host, port = place.meeting_place
        yield "", f"rank 0 is at {host}:{port}" if host else f"set {config.LEADER.name}"
        secret = job_secret.source(place, os.environ)
        yield "", f"the secret is from {secret}" if secret else "set KUNGFU_SECRET"
    except errors.KungfuError as error:
        yield "started by", str(error)


def _settings() -> Sequence[Setting[Any]]:
    with contextlib.suppress(errors.LibraryError):
        return environment.settings()
    return config.SETTINGS


def _print(setting: Setting[Any]) -> bool:
    """Prints a setting's meaning, type and value; returns False if that cannot be parsed."""
    line = f"  {setting.name:<26} {setting.meaning} ({setting.type})"
    try:
        setting.get()
    except errors.InvalidArgumentError as error:
        print(f"{line}  [cannot be understood: {error}]")
        return False
    except RuntimeError as error:  # a user has no home
        print(f"{line}  [none: {error}]")
        return True
    text = os.environ.get(setting.name)
    shown = "set" if setting.secret else text
    default = f"  [default: {setting.default}]" if setting.default else ""
    print(f"{line}  [{shown}]" if text else line + default)
    return True


def _others() -> list[str]:
    """Warnings about other variables whose names begin with KUNGFU_."""
    try:
        return environment.unknown(os.environ)
    except errors.LibraryError:
        return ["KUNGFU_*: the core's are known to the core only, which is missing"]


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` has seen enough
    sys.exit(main())
