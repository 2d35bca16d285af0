"""Lets a program's `import tensorflow` mean `tensorflow.compat.v1`.

Libraries must go on to get TensorFlow as it is, so it matters who imports. A finder does not know
the importer, and its result is for all of them; `__import__` knows.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_LIBRARIES = {
    *("horovod", "kungfu", "kungfu_tf"),
    *("keras", "tensorflow", "tensorflow_estimator", "tf_keras"),
}
_GONE = {
    "tensorflow.contrib": "TensorFlow has none since 2.0",
    "tensorflow.examples": (
        "TensorFlow has none since 2.0; kungfu.tensorflow.v1.helpers.mnist reads the files of MNIST"
    ),
}


def install() -> None:
    """From now on. TensorFlow is not imported before the program does it."""
    if not isinstance(builtins.__import__, _Import):
        builtins.__import__ = _Import(builtins.__import__)
        sys.meta_path.insert(0, _Finder())


def in_use() -> bool:
    """Whether the program has imported TensorFlow, and got version 1."""
    return bool(_version_1.cache_info().currsize)


def use() -> None:
    """The same here, for a program that has imported it elsewhere."""
    install()
    importlib.import_module("tensorflow")
    _version_1()


class _Finder(MetaPathFinder):
    """Explains what replaces modules that are gone."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Finds nothing.

        Raises:
            ModuleNotFoundError: If a module is gone.
        """
        if fullname in _GONE:
            raise ModuleNotFoundError(f"no module {fullname}: {_GONE[fullname]}")


class _Import:
    """`__import__`."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        module = self._original(name, globals, locals, fromlist, level)
        top, *rest = name.split(".")
        if top != "tensorflow" or level or not _is_of_the_program(globals or {}):
            return module
        version_1 = _version_1()
        if rest and (fromlist or rest[0] == "compat"):
            return module  # says itself which version it means, or is the same in all
        wanted = rest[:1] or fromlist or ()
        return (
            version_1 if all(each == "*" or hasattr(version_1, each) for each in wanted) else module
        )


@functools.cache
def _version_1() -> Any:
    version_1 = sys.modules["tensorflow"].compat.v1
    version_1.disable_v2_behavior()
    return version_1


def _is_of_the_program(importer: Mapping[str, Any]) -> bool:
    name = importer.get("__name__") or ""
    if name == "__main__":
        return True
    file = importer.get("__file__")
    return name.split(".")[0] not in _LIBRARIES and bool(file) and not _is_installed(str(file))


@functools.cache
def _is_installed(file: str) -> bool:
    return any(folder in Path(file).absolute().parents for folder in _installed_folders())


@functools.cache
def _installed_folders() -> frozenset[Path]:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [sysconfig.get_path(kind) for kind in kinds]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    return frozenset(Path(folder) for folder in folders)
