"""Each process on its own, as if there were no others."""

from __future__ import annotations

import contextlib
from typing import Any

from adapters import started

rank, size = started.rank, started.size
scope = contextlib.nullcontext


def optimizer(inner: Any) -> Any:
    return inner
