"""Collects the modules of cases; harness/__init__.py tells how they work.

harness/    starts peers, and has them run cases or programs
cases/      what peers do together, by the room that it is about
programs/   jobs of their own, which the tests in this folder start
shared/     what all of these import
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("shared")))
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
