"""Finds `kungfu`, `horovod` or `bluefog`, and its modules, in the folder of that name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from kungfu_tf import errors
from kungfu_tf.compat import missing

_HERE = Path(__file__).parent


def install(package: str) -> None:
    """Puts it before all other finders.

    Args:
        package: "kungfu", "horovod" or "bluefog".

    Raises:
        FailedPreconditionError: If another package of this name has been imported.
    """
    there = sys.modules.get(package)
    if there is not None and not isinstance(there.__loader__, _Loader):
        where = getattr(there, "__file__", None) or "somewhere"
        raise errors.FailedPreconditionError(
            f"compat: the program has imported the real {package} already, from {where}; call "
            f"install before that, or uninstall {package}"
        )
    if package not in installed():
        sys.meta_path.insert(0, _Finder(package))


def installed() -> list[str]:
    """The packages that have been installed here."""
    return [finder.package for finder in sys.meta_path if isinstance(finder, _Finder)]


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        """As Python does; afterwards the module explains why a name is missing."""
        super().exec_module(module)

        def explain(attribute: str) -> Any:
            raise AttributeError(missing.why(module.__name__, attribute))

        module.__dict__.setdefault("__getattr__", explain)


class _Finder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's.

        Raises:
            ModuleNotFoundError: If a module of the package is missing, with the reason.
        """
        top, *rest = fullname.split(".")
        if top != self.package:
            return None
        place = _HERE.joinpath(top, *rest)
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if not file.is_file():
            parent, _, last = fullname.rpartition(".")
            # Without a name: Python drops the message of an error that has the module's name.
            raise ModuleNotFoundError(missing.why(parent, last))
        # All are packages for Python. So it looks for a module if a package lacks a name, as in
        # `from kungfu.tensorflow.ops import x`, and gets the message here.
        return spec_from_file_location(
            fullname,
            file,
            loader=_Loader(fullname, str(file)),
            submodule_search_locations=None if rest[-1:] == ["__main__"] else [str(place)],
        )
