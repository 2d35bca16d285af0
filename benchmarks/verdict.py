"""Whether a target is reached, and how sure that is: the median of ratios, and its interval."""

from __future__ import annotations

import enum
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

SAMPLES = 2000
OUTSIDE = 0.025  # of the samples' medians, at each end


class Verdict(enum.Enum):
    """On a target."""

    REACHED = "reached"
    FALLS_SHORT = "falls short"
    UNDECIDED = "undecided"

    @staticmethod
    def of(holds: bool) -> Verdict:
        """On what is counted, and not timed."""
        return Verdict.REACHED if holds else Verdict.FALLS_SHORT


class Finding(NamedTuple):
    """What was measured, in words, and whether it is enough."""

    figure: str
    verdict: Verdict


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """In which the median lies with a probability of 95 %, by the bootstrap (Efron 1979).

    Of each of many samples that are drawn from the ratios, with replacement, the median is taken.
    2.5 % of these lie below the interval, and 2.5 % above it. The same ratios give the same one.

    Args:
        ratios: One of each round; at least one.
    """
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(SAMPLES))
    outside = int(OUTSIDE * SAMPLES)
    return medians[outside], medians[-1 - outside]


def at_most(ratios: Mapping[str, Sequence[float]], factor: float) -> Finding:
    """That no median is above the factor. Shown is the one that is highest.

    Args:
        ratios: By what they are ratios of.
        factor: The bound.
    """
    intervals = {what: interval(of_that) for what, of_that in ratios.items()}
    worst = max(ratios, key=lambda what: statistics.median(ratios[what]))
    least, most = intervals[worst]
    figure = f"{statistics.median(ratios[worst]):.2f} × ({least:.2f} to {most:.2f}; {worst})"
    if any(least > factor for least, _ in intervals.values()):
        return Finding(figure, Verdict.FALLS_SHORT)
    if all(most <= factor for _, most in intervals.values()):
        return Finding(figure, Verdict.REACHED)
    return Finding(figure, Verdict.UNDECIDED)
