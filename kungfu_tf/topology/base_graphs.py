"""Base-(k+1) graphs: a cycle of few steps after which every peer holds the exact mean.

In each step a rank mixes with at most k others. With base b = k + 1:

- If n is a product of numbers up to b, the mean is made factor by factor: each step averages within
  groups whose ranks differ in one digit of that number system (`_by_digits`).
- Else n is a sum of parts aₗ·bᵖˡ with falling p, its digits in base b. First each part averages
  within itself. Then, part by part, each rank behind the part mixes with one rank of each of its
  aₗ blocks of bᵖˡ ranks, with weights that make the mean of every block, and that of the ranks
  behind the part, the mean of all. So each block ends by averaging within itself, while the ranks
  behind it go on with the next part (`_by_parts`).
- Of n = s·r, where s has all prime factors up to b, the r ranks of each group may be averaged in
  the second way, and the s groups in the first. The shorter cycle is taken.

Source: Takezawa et al., "Beyond Exponential Graph: Communication-Efficient Topologies for
Decentralized Learning via Finite-time Convergence", NeurIPS 2023.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, zip_longest

import numpy as np

from kungfu_tf import errors
from kungfu_tf.topology.topology import Matrix, Topology, cycle
from kungfu_tf.topology.weights import with_own_weights

# What one step changes: disjoint groups that average, and pairs that take a share of each other.
Groups = list[list[int]]
Shares = dict[tuple[int, int], float]


def base_graph(*, degree: int = 1) -> Topology:
    """A topology that makes the exact mean of any number of peers in few steps.

    A cycle of n peers has about 2·log n steps, and log₂ n if n is a power of two. With `degree` 1
    each rank exchanges its value with one other in a step, if with any.

    Source: Takezawa et al., "Beyond Exponential Graph: Communication-Efficient Topologies for
    Decentralized Learning via Finite-time Convergence", NeurIPS 2023.

    Args:
        degree: The most partners of a rank in one step, at least 1.

    Example:

    ```python
    kf.topology.base_graph().exact_steps(6)  # 4
    ```
    """
    if degree < 1:
        raise errors.InvalidArgumentError(f"base_graph: degree {degree} is not at least 1")

    def matrices(size: int) -> list[Matrix]:
        steps = _steps(list(range(size)), degree + 1)
        return [_matrix(size, step) for step in steps] or [np.eye(size)]

    return cycle(f"base_graph(degree={degree})", matrices)


class _Step:
    """The groups and shares of one step."""

    def __init__(self) -> None:
        self.groups: Groups = []
        self.shares: Shares = {}

    def add(self, other: _Step) -> None:
        self.groups += other.groups
        self.shares.update(other.shares)


def _matrix(size: int, step: _Step) -> Matrix:
    matrix = np.zeros((size, size))
    for group in step.groups:
        matrix[np.ix_(group, group)] = 1 / len(group)
    for (a, b), share in step.shares.items():
        matrix[a, b] = matrix[b, a] = share
    return with_own_weights(matrix)


def _steps(ranks: Sequence[int], base: int) -> list[_Step]:
    """The shortest of the ways to average these ranks."""
    smooth = len(ranks) // _rough_part(len(ranks), base)
    rest = len(ranks) // smooth
    groups = [ranks[i : i + rest] for i in range(0, len(ranks), rest)]
    inside = _at_once([_by_parts(group, base) for group in groups]) if rest > 1 else []
    across = _at_once([_by_digits([group[i] for group in groups], base) for i in range(rest)])
    return min([*inside, *across], _by_parts(ranks, base), key=len)


def _by_digits(ranks: Sequence[int], base: int) -> list[_Step]:
    """Averages ranks whose number has no prime factor above the base."""
    steps, distance = [], 1
    for factor in _factors(len(ranks), base):
        step = _Step()
        for first in range(len(ranks)):
            if first // distance % factor == 0:
                step.groups.append([ranks[first + i * distance] for i in range(factor)])
        steps.append(step)
        distance *= factor
    return steps


def _by_parts(ranks: Sequence[int], base: int) -> list[_Step]:
    """Averages any number of ranks."""
    parts = [list(blocks) for blocks in _parts(ranks, base)]
    if len(parts) == 1:
        return _by_digits(ranks, base)
    steps = _at_once([_by_digits(list(chain(*blocks)), base) for blocks in parts])
    ends = []
    for number, blocks in enumerate(parts[:-1]):
        behind = [rank for others in parts[number + 1 :] for rank in chain(*others)]
        inside = sum(map(len, blocks))
        share = inside / (len(blocks) * (inside + len(behind)))
        meeting = _Step()
        for i, rank in enumerate(behind):
            meeting.shares.update({(block[i], rank): share for block in blocks})
        waiting = [_Step() for _ in range(number)]
        ends.append([*waiting, meeting, *_at_once([_by_digits(b, base) for b in blocks])])
    return [*steps, *_at_once(ends)]


def _parts(ranks: Sequence[int], base: int) -> Iterator[list[list[int]]]:
    """For each digit of their number in this base, from the highest on, the blocks of its ranks."""
    power = 1
    while power * base <= len(ranks):
        power *= base
    begin = 0
    while begin < len(ranks):
        count = (len(ranks) - begin) // power
        ends = [begin + i * power for i in range(count + 1)]
        if count:
            yield [list(ranks[a:b]) for a, b in pairwise(ends)]
        begin += count * power
        power //= base


def _at_once(sequences: Sequence[Sequence[_Step]]) -> list[_Step]:
    """Steps of disjoint ranks in parallel; the shorter sequences are idle at the end."""
    steps = []
    for parallel in zip_longest(*sequences):
        step = _Step()
        for one in parallel:
            if one is not None:
                step.add(one)
        steps.append(step)
    return steps


def _rough_part(number: int, base: int) -> int:
    """What is left of it without its prime factors up to the base."""
    for factor in range(2, base + 1):
        while number % factor == 0:
            number //= factor
    return number


@functools.lru_cache(maxsize=1024)
def _factors(number: int, base: int) -> tuple[int, ...]:
    """As few factors as there can be, all from 2 to the base. REQUIRES: its primes are so, too."""
    if number == 1:
        return ()
    ways = [
        (factor, *_factors(number // factor, base))
        for factor in range(min(base, number), 1, -1)
        if number % factor == 0
    ]
    return min(ways, key=len)
