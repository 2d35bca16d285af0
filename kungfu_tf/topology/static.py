"""Topologies that are the same in every step."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from kungfu_tf import errors
from kungfu_tf.topology.topology import Matrix, Topology, static
from kungfu_tf.topology.weights import metropolis_matrix, shifted, shifts_matrix


def ring(*, directed: bool = False) -> Topology:
    """Each rank takes from the ranks before and behind it, with weights 1/3.

    Args:
        directed: Whether it takes from the one before it only, with weight 1/2.

    Example:

    ```python
    kf.topology.ring().spectral_gap(16)  # 0.05: slow with many peers
    ```
    """

    def matrix(size: int) -> Matrix:
        return shifts_matrix(size, [1] if directed else [1, size - 1])

    return static(f"ring(directed={directed})", matrix)


def star(*, center: int = 0) -> Topology:
    """One rank mixes with all others, which mix with it only.

    Args:
        center: That rank.
    """

    def matrix(size: int) -> Matrix:
        if not 0 <= center < size:
            raise errors.InvalidArgumentError(f"star: center {center} is no rank of {size} peers")
        return metropolis_matrix(size, ((center, rank) for rank in range(size) if rank != center))

    return static(f"star(center={center})", matrix)


def grid(*, torus: bool = False) -> Topology:
    """The ranks lie in rows, and mix with those beside, above and below them.

    The number of rows is the largest divisor of the size up to its root: 12 peers are a grid of 3
    rows, and 7 peers a line.

    Args:
        torus: Whether the last of a row, and of a column, mixes with the first.
    """

    def matrix(size: int) -> Matrix:
        rows = max(divisor for divisor in range(1, math.isqrt(size) + 1) if size % divisor == 0)
        columns = size // rows

        def edges() -> Iterable[tuple[int, int]]:
            for rank in range(size):
                row, column = divmod(rank, columns)
                if torus or column + 1 < columns:
                    yield rank, row * columns + (column + 1) % columns
                if torus or row + 1 < rows:
                    yield rank, (row + 1) % rows * columns + column

        return metropolis_matrix(size, edges())

    return static(f"grid(torus={torus})", matrix)


def fully_connected() -> Topology:
    """Each rank takes equally much from all: an all-reduce."""
    return static("fully_connected()", lambda size: np.full((size, size), 1 / size))


def hypercube() -> Topology:
    """Ranks whose numbers differ in one bit mix.

    If the size is no power of two, the ranks that are missing are left out.
    """

    def matrix(size: int) -> Matrix:
        bits = [1 << bit for bit in range((size - 1).bit_length())]
        pairs = ((rank, rank ^ bit) for rank in range(size) for bit in bits)
        return metropolis_matrix(size, ((a, b) for a, b in pairs if b < size))

    return static("hypercube()", matrix)


def exponential(*, base: int = 2) -> Topology:
    """Each rank takes from those that are 1, base, base², ... ranks before it, equally much.

    Source: Ying et al., "Exponential Graph is Provably Efficient for Decentralized Deep Training",
    NeurIPS 2021.

    Args:
        base: The ratio of the distances, at least 2.
    """
    _check_base("exponential", base)
    return static(
        f"exponential(base={base})", lambda size: shifts_matrix(size, _powers(base, size))
    )


def symmetric_exponential(*, base: int = 4) -> Topology:
    """Ranks mix whose distance around the ring is 1, base, base², ...

    Args:
        base: The ratio of the distances, at least 2.
    """
    _check_base("symmetric_exponential", base)

    def matrix(size: int) -> Matrix:
        near = _powers(base, size // 2 + 1)
        return shifts_matrix(size, [*near, *(size - shift for shift in near)])

    return static(f"symmetric_exponential(base={base})", matrix)


def equi_static(degree: int, *, seed: int = 0) -> Topology:
    """Each rank takes from `degree` others: those at certain distances before it, drawn at random.

    The draw is repeated until the graph is connected.

    Source: Song et al., "Communication-Efficient Topologies for Decentralized Learning with O(1)
    Consensus Rate", NeurIPS 2022 (D-EquiStatic).

    Args:
        degree: The number of distances, at least 1; all, if there are not more.
        seed: Of the random numbers.
    """
    if degree < 1:
        raise errors.InvalidArgumentError(f"equi_static: degree {degree} is not at least 1")

    def matrix(size: int) -> Matrix:
        count = min(degree, size - 1)
        random = np.random.default_rng([seed, size])
        shifts = [0]
        while math.gcd(size, *shifts) > 1:
            shifts = random.choice(size - 1, count, replace=False).tolist()
            shifts = [shift + 1 for shift in shifts]
        mixed = np.eye(size) / size
        for shift in shifts if size > 1 else []:
            mixed += (size - 1) / (size * count) * shifted(size, shift)
        return mixed

    return static(f"equi_static(degree={degree}, seed={seed})", matrix)


def _powers(base: int, end: int) -> list[int]:
    powers, power = [], 1
    while power < end:
        powers.append(power)
        power *= base
    return powers


def _check_base(family: str, base: int) -> None:
    if base < 2:
        raise errors.InvalidArgumentError(f"{family}: base {base} is not at least 2")
