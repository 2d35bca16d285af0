"""`python -m kungfu_tf.info`: versions, libraries, limits, and every variable with its meaning.

It says which value of each is in force, and which cannot be understood. It starts no peer and
imports no TensorFlow.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import resource
import signal
import sys
from collections.abc import Callable, Iterator

from kungfu_tf import __version__, _build, _environment, _lib, config, errors
from kungfu_tf._environment import Variable

_TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu")
_KERAS_PACKAGES = ("keras", "keras-nightly")


def main() -> int:
    """Prints it. Returns the exit code: 1 if a variable cannot be understood."""
    for name, value in [*_versions(), *_libraries(), *_limits()]:
        print(f"{name:<12} {value}")
    print("\nVariables, and what is in force")
    understood = True
    for variable in _variables():
        try:
            in_force = _in_force(variable)
        except errors.KungfuError as error:
            understood, in_force = False, f"  [cannot be understood: {error}]"
        print(f"  {variable.name:<26} {variable.meaning}{in_force}")
    for line in _others():
        print(f"  {line}")
    return 0 if understood else 1


def _versions() -> Iterator[tuple[str, str]]:
    yield "kungfu_tf", __version__
    yield "Python", f"{platform.python_version()}, {platform.platform()}"
    yield "TensorFlow", tensorflow_version() or "not installed"
    yield "Keras", _version_of(_KERAS_PACKAGES) or "not installed"
    if legacy := _version_of(("tf-keras",)):
        yield "tf-keras", legacy


def tensorflow_version() -> str | None:
    """Of the package that is installed, without importing it."""
    return _version_of(_TENSORFLOW_PACKAGES)


def _version_of(packages: tuple[str, ...]) -> str | None:
    for package in packages:
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
        cache = _or_why_not(lambda: str(config.CACHE_DIR.get()))
        yield "ops", f"for TensorFlow {version}: compiled at first use, in {cache}"


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


def _variables() -> list[Variable]:
    with contextlib.suppress(errors.LibraryError):
        return _environment.variables()
    return _environment.python_variables()


def _in_force(variable: Variable) -> str:
    """The text of a variable, or its default.

    Raises:
        KungfuError: The text cannot be understood.
    """
    if text := os.environ.get(variable.name):
        variable.check(text)
        return f"  [{'set' if variable.name in config.SECRETS else text}]"
    default = _or_why_not(variable.default)
    return f"  [default: {default}]" if default else ""


def _or_why_not(default: Callable[[], str]) -> str:
    """It, or that a user has no home for it."""
    try:
        return default()
    except RuntimeError as error:
        return f"none, {error}"


def _others() -> list[str]:
    """What is to be said of other variables that are called as ours are."""
    try:
        return _environment.unknown(os.environ)
    except errors.LibraryError:
        return ["KUNGFU_*: the core's are known to the core only, which is missing"]


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` has seen enough
    sys.exit(main())
