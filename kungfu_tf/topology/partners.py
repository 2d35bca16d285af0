"""Links, taken apart: into steps in which each rank has one partner."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kungfu_tf import errors

Links = npt.NDArray[np.bool_]


def pairings(links: Links) -> list[list[tuple[int, int]]]:
    """Symmetric links, as few lists of pairs as a greedy colouring of the edges makes.

    Args:
        links: `links[i, j]` tells whether ranks i and j are linked.
    """
    steps: list[list[tuple[int, int]]] = []
    paired: list[set[int]] = []
    for a, b in np.argwhere(np.triu(links)).tolist():
        step = next((i for i, ranks in enumerate(paired) if not ranks & {a, b}), len(steps))
        if step == len(steps):
            steps.append([])
            paired.append(set())
        steps[step].append((a, b))
        paired[step] |= {a, b}
    return steps


def permutations(links: Links, what: str) -> list[list[int]]:
    """Links that lead one way, as permutations: the source of each rank, for each step.

    Where each rank has equally many sources and targets, there are as many permutations (Kőnig).
    They are matchings of the ranks with their sources; the nearest sources are tried first, so the
    links of certain distances become the permutations of these distances.

    Args:
        links: `links[i, j]` tells whether rank i takes from rank j.
        what: The topology, for the message.

    Raises:
        InvalidArgumentError: If the numbers of sources and targets are not all equal.
    """
    left = links.copy()
    counts = {int(count) for axis in (0, 1) for count in left.sum(axis=axis)}
    if len(counts) > 1:
        raise errors.InvalidArgumentError(
            f"{what}: links that lead one way need equally many sources and targets at all ranks; "
            f"here they have {min(counts)} to {max(counts)}"
        )
    steps = []
    for _ in range(counts.pop()):
        sources = _matching(left)
        left[np.arange(len(left)), sources] = False
        steps.append(sources)
    return steps


def _matching(links: Links) -> list[int]:
    """A source for each rank, all different (Kuhn's algorithm)."""
    size = len(links)
    taker: dict[int, int] = {}  # of each source

    def find(rank: int, tried: set[int]) -> bool:
        for distance in range(1, size):
            source = (rank - distance) % size
            if not links[rank, source] or source in tried:
                continue
            tried.add(source)
            if source not in taker or find(taker[source], tried):
                taker[source] = rank
                return True
        return False

    for rank in range(size):
        find(rank, set())
    source_of = {rank: source for source, rank in taker.items()}
    return [source_of[rank] for rank in range(size)]
