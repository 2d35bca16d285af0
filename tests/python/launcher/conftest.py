"""What the launcher's parts are tested against."""

from collections.abc import Iterator

import pytest

from tests.python.launcher.runners import Two
from tests.python.launcher.served import Served, kept


@pytest.fixture
def two() -> Iterator[Two]:
    two = Two()
    yield two
    two.close()


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served(kept())
    yield served
    served.stop()
