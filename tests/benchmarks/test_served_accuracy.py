"""The rates up to which SGD with a delay converges, against formulas."""

from __future__ import annotations

import math

import pytest
import served_accuracy


@pytest.mark.parametrize("delay", [0, 1, 3, 12])
def test_without_momentum(delay: int) -> None:
    limit = 2 * math.sin(math.pi / (2 * (2 * delay + 1)))
    assert served_accuracy.largest_rate(delay, 0.0) == pytest.approx(limit, abs=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_without_delay(momentum: float) -> None:
    assert served_accuracy.largest_rate(0, momentum) == pytest.approx(2 * (1 + momentum), abs=1e-6)


def test_a_delay_of_one_update_with_momentum() -> None:
    """The roots of z² − (1 + μ)z + μ + k have the product 1 where they leave the circle."""
    assert served_accuracy.largest_rate(1, 0.9) == pytest.approx(0.1, abs=1e-6)
