"""Functions that run in new processes, where libraries must be stood in for before they arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kungfu_tf.compat import _packages, _tf1
from kungfu_tf.function_launch import pickling


class Launched:
    """A function of the rank, for `kungfu_tf.launch`."""

    def __init__(self, fn: Callable[[int], Any]) -> None:
        self._pickled = pickling.dump_call(fn)
        self._packages = _packages.installed()
        self._uses_tf1 = _tf1.in_use()

    def __call__(self, rank: int) -> Any:
        for package in self._packages:
            _packages.install(package)
        if self._uses_tf1:
            _tf1.use()
        return pickling.load_call(memoryview(self._pickled)).fn(rank)
