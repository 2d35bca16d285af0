"""Gathers rows of integers whose length differs between peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kungfu_tf.ops.collective import all_gather

Row = npt.NDArray[np.int64]


def gather(mine: Sequence[int] | Row, *, name: str) -> list[Row]:
    """The row of each rank. Eager; all peers call it.

    Args:
        mine: Integers; other peers may have more or fewer.
        name: The same on every peer.
    """
    return cut(all_gather(with_length(mine), concat=True, name=name).numpy())


def with_length(row: Sequence[int] | Row) -> Row:
    """A peer's row as the all-gather takes it: with its length in front."""
    return np.array([len(row), *row], np.int64)


def cut(gathered: Any) -> list[Row]:
    """The rows of all ranks, out of what the all-gather returns."""
    rows: list[Row] = []
    while len(gathered):
        length = int(gathered[0])
        rows.append(gathered[1 : 1 + length])
        gathered = gathered[1 + length :]
    return rows
