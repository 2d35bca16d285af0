"""Topologies in which a rank has one partner in each step, and another one in the next."""

from __future__ import annotations

import numpy as np

from kungfu_tf.topology.partners import pairings, permutations
from kungfu_tf.topology.topology import Matrix, Topology, cycle
from kungfu_tf.topology.weights import pairs_matrix, shifted


def one_peer_exponential() -> Topology:
    """In step t each rank takes half of the rank that is 2ᵗ before it.

    After a cycle of log₂(size) steps the mean is exact if the size is a power of two, and only
    then: `base_graph` is exact for all sizes.

    Source: Ying et al., "Exponential Graph is Provably Efficient for Decentralized Deep Training",
    NeurIPS 2021.
    """

    def matrices(size: int) -> list[Matrix]:
        steps = max(1, (size - 1).bit_length())
        return [(np.eye(size) + shifted(size, 1 << step)) / 2 for step in range(steps)]

    return cycle("one_peer_exponential()", matrices)


def one_peer(topology: Topology) -> Topology:
    """The links of another topology one after the other: one partner in each step.

    Links that lead both ways become pairs, others permutations. Partners take half of each other.

    Args:
        topology: The other one. If its links lead one way, each rank must have equally many sources
            and targets as all others.

    Raises:
        InvalidArgumentError: If they have not, when the size is known.

    Example:

    ```python
    kf.topology.one_peer(kf.topology.ring()).length(8)  # 2: the one beside, the other
    ```
    """

    def matrices(size: int) -> list[Matrix]:
        made = []
        for matrix in topology.matrices(size):
            links = (matrix != 0) & ~np.eye(size, dtype=bool)
            if np.array_equal(links, links.T):
                made += [pairs_matrix(size, pairs) for pairs in pairings(links)]
            else:
                halves = np.eye(size) / 2
                whole = permutations(links, f"one_peer({topology})")
                made += [halves + np.eye(size)[sources] / 2 for sources in whole]
        return made or [np.eye(size)]

    return cycle(f"one_peer({topology})", matrices, key=("one_peer", topology))


def equi_dynamic(*, seed: int) -> Topology:
    """In each step every rank takes from the one at a certain distance before it.

    The distances are all from 1 to size − 1, in random order.

    Source: Song et al., "Communication-Efficient Topologies for Decentralized Learning with O(1)
    Consensus Rate", NeurIPS 2022 (OD-EquiDyn, with η = 1/2).

    Args:
        seed: Of the random numbers.
    """

    def shift(size: int, step: int) -> int:
        return 1 + int(np.random.default_rng([seed, size]).permutation(size - 1)[step])

    def matrix(size: int, step: int) -> Matrix:
        if size == 1:
            return np.eye(1)
        share = (size - 1) / size
        return (1 - share / 2) * np.eye(size) + share / 2 * shifted(size, shift(size, step))

    return Topology(f"equi_dynamic(seed={seed})", lambda size: max(1, size - 1), matrix)


def random_matching(*, seed: int) -> Topology:
    """In each step the ranks are paired at random, and each pair holds its mean.

    A cycle is a tournament in random order: every two ranks meet once. If the size is odd, one of
    them has no partner in each step.

    Args:
        seed: Of the random numbers.
    """

    def length(size: int) -> int:
        return max(1, size - 1 + size % 2)

    def matrix(size: int, step: int) -> Matrix:
        # The circle method: one seat stays, the others move on by one after each round.
        rounds = length(size)
        random = np.random.default_rng([seed, size])
        seats, turns = random.permutation(rounds + 1), random.permutation(rounds)
        circle = np.roll(seats[:rounds], turns[step])
        pairs = [(circle[0], seats[rounds])]
        pairs += [(circle[i], circle[rounds - i]) for i in range(1, (rounds + 1) // 2)]
        return pairs_matrix(size, [(a, b) for a, b in pairs if a < size and b < size])

    return Topology(f"random_matching(seed={seed})", length, matrix)
