"""Moving averages of numbers."""

from __future__ import annotations

__all__ = ["EMA"]


class EMA:
    """An exponential moving average, which begins with the first number.

    ```
    y ← x                           the first time
    y ← α·y + (1 − α)·x             afterwards, with x clipped to y / scale_cap .. y · scale_cap
    ```

    Args:
        alpha: The weight of the past.
        scale_cap: How many times larger or smaller than the average a number may be; None: any.
    """

    def __init__(self, alpha: float, scale_cap: float | None = None) -> None:
        self._alpha = alpha
        self._scale_cap = scale_cap
        self._value: float | None = None

    def update(self, x: float) -> float:
        """Takes a number, and returns the average."""
        if self._value is None:
            self._value = x
        else:
            if self._scale_cap is not None:
                x = max(self._value / self._scale_cap, min(x, self._value * self._scale_cap))
            self._value = self._alpha * self._value + (1 - self._alpha) * x
        return self._value

    def get(self) -> float | None:
        """Returns the average; None: there has been no number."""
        return self._value

    def reset(self) -> None:
        """Begins anew."""
        self._value = None
