"""The distance of two arrays, and whether rounding may explain it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def distance(one: Any, other: Any) -> float:
    """‖one − other‖ / ‖other‖ of arrays of numbers; inf if they are unequal in another way.

    Arrays with the same bits have a distance of 0, whatever their dtype.
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return np.inf
    if one.dtype == object or one.dtype == bool:
        return 0.0 if np.array_equal(one, other) else np.inf
    wide = np.complex128 if np.iscomplexobj(one) else np.float64
    one, other = one.astype(wide), other.astype(wide)
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return np.inf
    one, other = (np.where(np.isfinite(a), a, 0) for a in (one, other))
    off, size = np.linalg.norm(one - other), np.linalg.norm(other)
    return float(off / size) if size > 0 else float(np.inf if off > 0 else 0)


def is_rounding(one: Any, other: Any) -> bool:
    """Whether they agree in half of their dtype's digits. A model may lose the others by rounding.

    Processors of other kinds, and GPUs, add in another order, or with fewer digits.
    """
    off = distance(one, other)
    try:
        return off <= float(ml_dtypes.finfo(one.dtype).eps) ** 0.5
    except ValueError:  # not of floating numbers
        return off == 0
