"""Collects the modules of cases in this folder; harness/__init__.py tells how they work."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from harness.plugin import (
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_pycollect_makemodule,
    pytest_runtest_teardown,
)

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_pycollect_makemodule",
    "pytest_runtest_teardown",
]
