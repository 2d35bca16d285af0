"""What all peers must have in common before `fit` may begin."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kungfu_tf import ops, peer


def check(arguments: Mapping[str, Any], may_stop_early: bool) -> bool:
    """Compares the arguments of `fit` that decide how often the peers meet.

    Args:
        arguments: Those of `fit`, by name.
        may_stop_early: Whether this peer's training may stop after any batch.

    Returns:
        Whether that of some peer may.

    Raises:
        ValueError: On every peer, if the arguments differ: names argument, values and ranks.
    """
    mine = _meetings(arguments)
    codes = np.array([*map(_code, mine.values()), may_stop_early], np.int64)
    gathered = ops.all_gather(codes, name="fit/arguments").numpy()
    for i, argument in enumerate(mine):
        column = gathered[:, i]
        if np.any(column != column[0]):
            raise ValueError(_difference(argument, column, mine[argument]))
    return bool(gathered[:, -1].any())


def of_root(values: Sequence[int]) -> list[int]:
    """Rank 0's integers, on every peer."""
    return [int(v) for v in ops.broadcast(np.array(values, np.int64), name="fit/of_root").numpy()]


def _meetings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    validates = arguments["validation_data"] is not None or bool(arguments["validation_split"])
    return {
        "epochs": arguments["epochs"],
        "initial_epoch": arguments["initial_epoch"],
        "steps_per_epoch": arguments["steps_per_epoch"],
        "validation": validates,
        "validation_freq": arguments["validation_freq"] if validates else None,
    }


def _code(value: Any) -> int:
    """A number below 2^31 for itself, None for -1, anything else for its digest."""
    if value is None:
        return -1
    if isinstance(value, (bool, int, np.integer)):
        return int(value)
    return (1 << 31) + zlib.crc32(repr(value).encode())


def _difference(argument: str, codes: Any, mine: Any) -> str:
    def shown(code: int) -> str:
        if argument == "validation":
            return "given" if code else "not given"
        return "None" if code == -1 else str(code) if code < 1 << 31 else "something else"

    ranks_of: dict[str, list[int]] = {}
    for rank, code in enumerate(codes.tolist()):
        ranks_of.setdefault(shown(code), []).append(rank)
    name = "validation_data or validation_split" if argument == "validation" else argument
    found = "; ".join(f"{value} on rank {', '.join(map(str, r))}" for value, r in ranks_of.items())
    return (
        f"fit: {name} must be the same on all peers, and is {found} (here, on rank {peer.rank()}: "
        f"{mine!r}). Peers that train or validate more often than others would wait for them"
    )
