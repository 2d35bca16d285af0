"""What a topology must be for a training to come to the mean of its peers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kungfu_tf import errors
from kungfu_tf.topology.topology import ROUNDING, Matrix, Topology, connected_with_0


def check_argument(name: str, value: Any) -> None:
    """Checks an argument of that name.

    Raises:
        TypeError: If it is not a topology.
    """
    if not isinstance(value, Topology):
        raise TypeError(
            f"{name} takes a topology such as kungfu_tf.topology.base_graph(), not {value!r}"
        )


def check(
    topology: Topology,
    size: int,
    *,
    doubly: bool = True,
    symmetric: bool = False,
    rows: bool = True,
) -> None:
    """Raises unless a topology makes means, and connects all peers.

    Args:
        topology: The topology.
        size: The number of peers.
        doubly: Whether columns must add up to 1, too. Else the peers come to agree, but on another
            value than their mean.
        symmetric: Whether two ranks must take equally much from each other.
        rows: Whether rows must add up to 1. Push-sum needs the columns only.

    Raises:
        InvalidArgumentError: It names the step, the row or column, and its sum; or the ranks that
            never meet.

    Example:

    ```python
    kf.topology.check(kf.topology.from_matrix(weights), kf.size())
    ```
    """
    matrices = topology.matrices(size)
    for step, matrix in enumerate(matrices):
        problem = _problem(matrix, doubly=doubly, symmetric=symmetric, rows=rows)
        if problem:
            at = f" at step {step}" if len(matrices) > 1 else ""
            raise errors.InvalidArgumentError(f"{topology} of {size} peers{at}: {problem}")
    together = connected_with_0(matrices)
    if len(together) < size:
        alone = min(set(range(size)) - set(together))
        raise errors.InvalidArgumentError(
            f"{topology} of {size} peers: ranks 0 and {alone} never exchange values, not even over "
            "others"
        )


def _problem(matrix: Matrix, *, doubly: bool, symmetric: bool, rows: bool) -> str | None:
    """What is wrong with one matrix."""
    for row, column in np.argwhere(~np.isfinite(matrix) | (matrix < 0)).tolist():
        return f"the weight in row {row}, column {column} is {matrix[row, column]:g}"
    for name, axis in [("row", 1)] * rows + [("column", 0)] * doubly:
        sums = matrix.sum(axis=axis)
        place = int(np.abs(sums - 1).argmax())
        if abs(sums[place] - 1) > ROUNDING:
            return f"{name} {place} adds up to {sums[place]:.9g}, not to 1"
    if symmetric and not np.array_equal(matrix, matrix.T):
        i, j = np.argwhere(matrix != matrix.T)[0].tolist()
        return f"rank {i} takes {matrix[i, j]:g} of rank {j}, which takes {matrix[j, i]:g} of it"
    return None
