"""`python -m kungfu_tf.info`: versions, libraries, limits, and every variable with its meaning.

It starts no peer and imports no TensorFlow.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
from collections.abc import Iterator

from kungfu_tf import __version__, _build, _lib, config, errors

_TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu", "tf-nightly")


def main() -> None:
    """Prints it."""
    for name, value in [*_versions(), *_libraries(), *_limits()]:
        print(f"{name:<12} {value}")
    print("\nVariables (the value in force, if set)")
    for name, meaning in _variables():
        setting = os.environ.get(name)
        shown = "" if setting is None else f"  [{'set' if name in config.SECRETS else setting}]"
        print(f"  {name:<26} {meaning}{shown}")


def _versions() -> Iterator[tuple[str, str]]:
    yield "kungfu_tf", __version__
    yield "Python", f"{platform.python_version()}, {platform.platform()}"
    yield "TensorFlow", tensorflow_version() or "not installed"


def tensorflow_version() -> str | None:
    """Of the package that is installed, without importing it."""
    for package in _TENSORFLOW_PACKAGES:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _libraries() -> Iterator[tuple[str, str]]:
    path = _lib.LIBRARY_DIR / _build.CORE_NAME
    try:
        core = _lib.core()
        core_version = core.kungfu_version().decode()
        yield "core", f"{core_version}, interface {core.kungfu_abi_version()}: {path}"
    except errors.LibraryError as error:
        yield "core", str(error)
    libraries = _lib.op_libraries()
    for library, built_for in libraries.items():
        yield "ops", f"for TensorFlow {built_for}: {library}"
    minors = {_build.minor_version(built_for) for built_for in libraries.values()}
    version = tensorflow_version()
    if version and _build.minor_version(version) not in minors:
        yield "ops", f"for TensorFlow {version}: compiled at first use, in {config.CACHE_DIR.get()}"


def _limits() -> Iterator[tuple[str, str]]:
    descriptors, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield "transports", "shared memory between peers of a host, or Unix sockets"
    yield "", "TCP over IPv4 or IPv6 between hosts"
    try:
        longest = _lib.core().kungfu_longest_name()
        yield "limits", f"{longest} bytes of an operation's name"
    except errors.LibraryError:
        yield "limits", "that of names is known to the core only, which is missing"
    yield "", f"{descriptors} open files of a process (ulimit -n; at most {most})"
    yield "", f"{len(os.sched_getaffinity(0))} cores for this process"


def _variables() -> Iterator[tuple[str, str]]:
    try:
        yield from _lib.environment()
    except errors.LibraryError:
        yield "KUNGFU_*", "the core's are known to the core only, which is missing"
    for setting in config.SETTINGS:
        yield setting.name, setting.meaning


if __name__ == "__main__":
    main()
