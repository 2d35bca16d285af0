"""Puts TensorFlow's large tensors where the host's other peers can reach them.

TensorFlow chooses its allocator at the first tensor. So ours is offered before: at the end of
TensorFlow's import or of ours, whichever comes later.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from kungfu_tf import config, errors
from kungfu_tf.native import libraries

_TENSORFLOW = "tensorflow"


def begin() -> None:
    """Shares tensors, now or as soon as TensorFlow is imported.

    It does nothing if there is no peer to share them with.
    """
    if not config.has_neighbours():
        return
    if _TENSORFLOW in sys.modules:
        _share()
    else:
        sys.meta_path.insert(0, _WaitForTensorFlow())


class _WaitForTensorFlow(MetaPathFinder):
    """Finds TensorFlow as the other finders do, and shares tensors when its import ends."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _TENSORFLOW:
            return None
        # A caller may only want to know whether it exists, and import it later or never.
        others = [f for f in sys.meta_path if f is not self and hasattr(f, "find_spec")]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_share(module: ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    _share()

            spec.loader.exec_module = execute_and_share  # type: ignore[method-assign]
        return spec


def _share() -> None:
    try:
        is_late = libraries.share_tensors() < 0
    except errors.LibraryError as error:  # whoever uses the library gets the error later
        _warn(str(error))
        return
    if is_late:
        _warn("TensorFlow had made tensors before kungfu_tf was imported; import kungfu_tf earlier")


def _warn(why: str) -> None:
    print(f"kungfu_tf: tensors are reduced with copies: {why}", file=sys.stderr, flush=True)
