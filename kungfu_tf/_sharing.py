"""Sees to it that TensorFlow's large tensors lie where the host's other peers can reach them.

TensorFlow chooses its allocator at the first tensor: ours must be offered before it, at the end of
TensorFlow's import or at that of ours, whichever comes later.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from kungfu_tf import _lib, config

_TENSORFLOW = "tensorflow"


def begin() -> None:
    """Shares tensors, now or as soon as TensorFlow is imported.

    Does nothing where there is nobody to share them with.
    """
    if not config.neighbours():
        return
    if _TENSORFLOW in sys.modules:
        _share()
    else:
        sys.meta_path.insert(0, _WaitForTensorFlow())


class _WaitForTensorFlow(MetaPathFinder):
    """Finds TensorFlow once, as others find it, to be there when its import ends."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _TENSORFLOW:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_share(module: ModuleType) -> None:
                execute(module)
                _share()

            spec.loader.exec_module = execute_and_share  # type: ignore[method-assign]
        return spec


def _share() -> None:
    if _lib.share_tensors() < 0:
        print(
            "kungfu_tf: TensorFlow had made tensors before kungfu_tf was imported: they are "
            "reduced with copies; import kungfu_tf earlier",
            file=sys.stderr,
            flush=True,
        )
