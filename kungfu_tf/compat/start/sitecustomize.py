"""Runs first in each Python process of a job that `kungfu-run -compat` has started.

Python looks for a module of this name when it starts, and finds this one: its folder is on the
PYTHONPATH. Virtual environments, `python -m` and child processes keep that; `python -E`, `-I` and
`-S` do not. It runs the user's own, which it hides, afterwards.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys


def _install() -> None:
    """Stands in for what KUNGFU_COMPAT names, and leaves alone a Python that has no kungfu_tf."""
    try:
        from kungfu_tf import compat, config
    except ModuleNotFoundError as error:
        if error.name != "kungfu_tf":
            raise
        return
    for name in config.COMPAT.get():
        compat.install(name)


def _run_the_hidden_one() -> None:
    here = os.path.dirname(os.path.realpath(__file__))
    others = [entry for entry in sys.path if os.path.realpath(entry) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


_install()
_run_the_hidden_one()
