"""Matrices out of edges and distances."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kungfu_tf.topology.topology import Matrix


def shifted(size: int, shift: int) -> Matrix:
    """The matrix by which each rank takes all of the rank that is `shift` before it."""
    return np.roll(np.eye(size), shift, axis=0)


def shifts_matrix(size: int, shifts: Iterable[int]) -> Matrix:
    """Equal weights of the own value and of those at certain distances."""
    distances = {0, *(shift % size for shift in shifts)}
    return np.sum([shifted(size, shift) for shift in distances], axis=0) / len(distances)


def metropolis_matrix(size: int, edges: Iterable[tuple[int, int]]) -> Matrix:
    """Two ranks of an edge take 1/(1 + their larger degree) of each other, the rest of themselves.

    Such a matrix is symmetric and doubly stochastic for every graph.
    """
    links = np.zeros((size, size), bool)
    for a, b in edges:
        links[a, b] = links[b, a] = a != b
    degrees = links.sum(axis=1)
    matrix = np.where(links, 1 / (1 + np.maximum.outer(degrees, degrees)), 0.0)
    return with_own_weights(matrix)


def pairs_matrix(size: int, pairs: Iterable[tuple[int, int]]) -> Matrix:
    """The two ranks of each pair hold their mean; others keep their value."""
    matrix = np.eye(size)
    for pair in pairs:
        matrix[np.ix_(pair, pair)] = 1 / 2
    return matrix


def with_own_weights(matrix: Matrix) -> Matrix:
    """The matrix, whose diagonal becomes what is left of 1 in each row."""
    np.fill_diagonal(matrix, 0)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    return matrix
