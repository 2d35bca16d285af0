"""When a target is reached, and when nobody can say."""

from __future__ import annotations

import pytest
import verdict
from verdict import Verdict


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ({"a": [0.9, 0.91, 0.92]}, Verdict.REACHED),
        ({"a": [1.0]}, Verdict.REACHED),
        ({"a": [1.1, 1.2, 1.3]}, Verdict.FALLS_SHORT),
        ({"a": [0.8, 0.9, 1.2]}, Verdict.UNDECIDED),
        ({"a": [0.5, 0.5, 0.5], "b": [1.1, 1.1, 1.1]}, Verdict.FALLS_SHORT),
        ({"a": [0.5, 0.5, 0.5], "b": [0.9, 1.0, 1.1]}, Verdict.UNDECIDED),
        # What falls short is not hidden by what is worse in the median, and undecided.
        ({"a": [1.1, 1.1, 1.1], "b": [0.1, 1.2, 1.2]}, Verdict.FALLS_SHORT),
    ],
)
def test_a_target_is_judged_by_the_interval(
    ratios: dict[str, list[float]], expected: Verdict
) -> None:
    assert verdict.at_most(ratios, 1.0).verdict is expected


def test_the_interval_is_that_of_the_order_statistics() -> None:
    """Of 15 values the 4th and the 12th bound the median with 96.5 % (binomial distribution)."""
    least, most = verdict.interval([float(i) for i in range(1, 16)])
    assert 4 <= least <= 5 and 11 <= most <= 12


def test_the_worst_is_shown_with_its_interval() -> None:
    found = verdict.at_most({"64 KiB": [1.0, 1.0], "1 MiB": [1.5, 1.5]}, 2)
    assert found.figure == "1.50 × (1.50 to 1.50; 1 MiB)"
