"""Stand-ins for KungFu, Horovod and BlueFog in the process of a test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tables import PACKAGES

from kungfu_tf import compat


@pytest.fixture(scope="module")
def packages() -> Iterator[None]:
    """Stands in for them, in the test's module only."""
    finders = list(sys.meta_path)
    for package in PACKAGES:
        compat.install(package)
    yield
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        del sys.modules[name]
