"""What a topology is: a family of weight matrices over sizes, and a cycle of them over steps."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kungfu_tf import errors

Matrix = npt.NDArray[np.float64]

# Sums of weights differ from 1 by less than this if the weights are rounded, even to float32.
ROUNDING = 1e-6
# A mean whose weights differ from 1/size by less than this counts as exact.
_EXACT = 1e-12


@dataclasses.dataclass(frozen=True)
class Neighbors:
    """The part of one rank in one step.

    Attributes:
        self_weight: The weight of its own value.
        sources: The ranks that it takes from, ascending, each with its weight.
        targets: The ranks that take from it, ascending, each with the weight it has there.
    """

    self_weight: float
    sources: Mapping[int, float]
    targets: Mapping[int, float]


class Topology:
    """Which peers mix with which, and with what weights, for any number of peers.

    In each step rank i makes `Σⱼ W[i, j]·xⱼ`. The matrices W of the steps follow each other in a
    cycle, which has one matrix if the topology is static. Functions of this module make topologies.
    They are immutable; two that were made in the same way are equal.

    Example:

    ```python
    graph = kf.topology.base_graph()
    graph.matrices(3)  # after these three steps all peers hold the mean
    ```
    """

    def __init__(
        self,
        text: str,
        length: Callable[[int], int],
        matrix: Callable[[int, int], Matrix],
        *,
        key: Hashable = None,
    ) -> None:
        """Makes one from its definition.

        Args:
            text: How it was made, e.g. "ring(directed=True)".
            length: Returns the number of matrices in the cycle for a number of peers.
            matrix: Returns the matrix for a number of peers and a position in the cycle.
            key: What two equal topologies have in common; default `text`.
        """
        self._text = text
        self._length = length
        self._matrix = matrix
        self._key = text if key is None else key

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def length(self, size: int) -> int:
        """The number of steps in a cycle of `size` peers."""
        return self._length(_checked(size))

    def matrices(self, size: int) -> list[Matrix]:
        """The matrices of a cycle, one for each step.

        Args:
            size: The number of peers.

        Returns:
            Arrays [size, size], read-only. `W[i, j]` is how much rank i takes of rank j.

        Raises:
            InvalidArgumentError: If the topology is not defined for so many peers.
        """
        return [self.at(step, size) for step in range(self.length(size))]

    def at(self, step: int, size: int) -> Matrix:
        """The matrix of a step, counted from 0 without end.

        Args:
            step: The step.
            size: The number of peers.
        """
        matrix = self._matrix(size, operator.index(step) % self.length(size))
        matrix.flags.writeable = False
        return matrix

    def neighbors(self, step: int, rank: int, size: int) -> Neighbors:
        """The part of one rank in a step.

        Args:
            step: The step.
            rank: The rank, from 0 to size − 1.
            size: The number of peers.
        """
        matrix = self.at(step, size)
        if not 0 <= rank < size:
            raise errors.InvalidArgumentError(f"{self}: rank {rank} is none of {size} peers")
        return Neighbors(
            float(matrix[rank, rank]), _others(matrix[rank], rank), _others(matrix[:, rank], rank)
        )

    def degree(self, size: int) -> int:
        """The most ranks that a rank takes from, or is taken from by, in one step."""
        links = [(matrix != 0) & ~np.eye(size, dtype=bool) for matrix in self.matrices(size)]
        return max(int(link.sum(axis).max()) for link in links for axis in (0, 1))

    def is_doubly_stochastic(self, size: int) -> bool:
        """Whether the weights are not negative, and all rows and columns add up to 1."""
        return all(
            bool((matrix >= 0).all())
            and all(np.allclose(matrix.sum(axis), 1, rtol=0, atol=ROUNDING) for axis in (0, 1))
            for matrix in self.matrices(size)
        )

    def is_symmetric(self, size: int) -> bool:
        """Whether two ranks always take equally much from each other."""
        return all(np.array_equal(matrix, matrix.T) for matrix in self.matrices(size))

    def is_connected(self, size: int) -> bool:
        """Whether each rank's value reaches every other rank, if the cycle is repeated."""
        return len(connected_with_0(self.matrices(size))) == size

    def spectral_gap(self, size: int) -> float:
        """How fast the peers' values come together: 1 in a cycle whose mean is exact, 0 never.

        It is 1 − ‖ΠW − J‖₂, with the product ΠW over a cycle, and J the mean of all.
        """
        product = functools.reduce(lambda done, matrix: matrix @ done, self.matrices(size))
        return float(1 - np.linalg.norm(product - 1 / size, 2))

    def exact_steps(self, size: int) -> int | None:
        """After how many steps, from step 0, all peers hold the mean; None: in no cycle."""
        product = np.eye(size)
        for step, matrix in enumerate(self.matrices(size)):
            if np.abs(product - 1 / size).max() <= _EXACT:
                return step
            product = matrix @ product
        return self.length(size) if np.abs(product - 1 / size).max() <= _EXACT else None

    def to_networkx(self, size: int, step: int = 0) -> Any:
        """The graph of a step, for networkx, which must be installed.

        Args:
            size: The number of peers.
            step: The step.

        Returns:
            A `networkx.DiGraph`. Its edge u → v has as `weight` how much v takes of u; u → u is the
            own weight. BlueFog's graphs have the same directions.
        """
        import networkx

        return networkx.from_numpy_array(self.at(step, size).T, create_using=networkx.DiGraph)


def static(text: str, matrix: Callable[[int], Matrix]) -> Topology:
    """A topology with one matrix for each number of peers."""
    return Topology(text, lambda size: 1, lambda size, step: matrix(size))


def cycle(
    text: str, matrices: Callable[[int], Sequence[Matrix]], *, key: Hashable = None
) -> Topology:
    """A topology whose cycle is made at once."""
    made = functools.lru_cache(maxsize=8)(matrices)
    return Topology(
        text, lambda size: len(made(size)), lambda size, step: made(size)[step], key=key
    )


def _checked(size: int) -> int:
    if operator.index(size) < 1:
        raise errors.InvalidArgumentError(f"a topology is of at least one peer, not of {size}")
    return size


def _others(weights: Matrix, rank: int) -> dict[int, float]:
    return {int(other): float(weights[other]) for other in weights.nonzero()[0] if other != rank}


def connected_with_0(matrices: Sequence[Matrix]) -> list[int]:
    """Rank 0, and the ranks with which it exchanges values, directly or over others."""
    links = np.any([matrix != 0 for matrix in matrices], axis=0)
    return sorted(_reaching_0(links) & _reaching_0(links.T))


def _reaching_0(links: npt.NDArray[np.bool_]) -> set[int]:
    """The ranks whose values come to rank 0; `links[i, j]` tells whether i takes from j."""
    reaching, new = {0}, [0]
    while new:
        found = set(np.flatnonzero(links[new].any(axis=0)).tolist()) - reaching
        reaching |= found
        new = sorted(found)
    return reaching
