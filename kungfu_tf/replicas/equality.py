"""Are the peers' variables still equal? If not: which, and where.

Every peer digests its values (8 bytes per variable) and one consensus compares the digests. Only if
that says no they are gathered, to say more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from kungfu_tf import errors, ops, peer
from kungfu_tf.upstream import generations

Digests = npt.NDArray[np.int64]

_SHOWN = 5  # variables


def check_equal(variables: Sequence[Any], when: str) -> None:
    """Raises, on every peer, unless the variables are bitwise equal on all of them. Eager.

    Args:
        variables: As many on every peer, in the same order.
        when: Ends the message: "after the first step".

    Raises:
        DivergenceError: Names the variables, and the ranks and hosts where they differ from
            rank 0's.
        tf.errors.OpError: As any collective: a peer is gone, or does not compare.
    """
    digests = digests_of_variables(variables)
    if not bool(ops.consensus(digests, name="check_equal/consensus")):
        gathered = ops.all_gather(_with_length(digests), concat=True, name="check_equal/digests")
        raise errors.DivergenceError(_difference(gathered.numpy(), variables, when))


class GraphCheck:
    """`check_equal` for a TF1 graph: made while it is built, called with a session."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self._variables = list(variables)
        self._digests = tf.compat.v1.placeholder(tf.int64, [None])
        self._equal = ops.consensus(self._digests, name="check_equal/consensus")
        self._gathered = ops.all_gather(self._digests, concat=True, name="check_equal/digests")

    def __call__(self, session: Any, when: str) -> None:
        """Raises as `check_equal` does."""
        digests = digests_of(session.run(self._variables))
        if not session.run(self._equal, {self._digests: digests}):
            gathered = session.run(self._gathered, {self._digests: _with_length(digests)})
            raise errors.DivergenceError(_difference(gathered, self._variables, when))


def digests_of_variables(variables: Iterable[Any]) -> Digests:
    """8 bytes of each. Eager. Copies none: a model's copy may be what memory has no room for."""
    return digests_of(np.asarray(tf.convert_to_tensor(generations.native(v))) for v in variables)


def digests_of(values: Iterable[Any]) -> Digests:
    """8 bytes of each array."""
    hashes = [hashlib.blake2b(_bytes_of(value), digest_size=8) for value in values]
    return np.frombuffer(b"".join(h.digest() for h in hashes), dtype=np.int64)


def _bytes_of(value: Any) -> memoryview:
    """The bytes of any type: bfloat16 has no buffer of its own."""
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8).data


def _with_length(digests: Digests) -> Digests:
    """Puts the length before them: rows can be cut apart, also if peers differ in it."""
    return np.concatenate([[len(digests)], digests])


def _difference(gathered: Digests, variables: Sequence[Any], when: str) -> str:
    rows: list[Digests] = []
    while len(gathered):
        length = int(gathered[0])
        rows.append(gathered[1 : 1 + length])
        gathered = gathered[1 + length :]
    lengths = [len(row) for row in rows]
    if len(set(lengths)) > 1:
        shown = [
            f"{count} on {peer.names_of([rank for rank, n in enumerate(lengths) if n == count])}"
            for count in dict.fromkeys(lengths)
        ]
        return f"the peers have different numbers of variables {when}: {', '.join(shown)}"
    where = [
        (i, [rank for rank, row in enumerate(rows) if row[i] != rows[0][i]])
        for i in range(lengths[0])
    ]
    different = [(i, ranks) for i, ranks in where if ranks]
    shown = [
        f"{generations.name_of(variables[i])!r} on {peer.names_of(r)}"
        for i, r in different[:_SHOWN]
    ]
    more = f", and {len(different) - len(shown)} more" if len(different) > len(shown) else ""
    return (
        f"{len(different)} of {lengths[0]} variables differ from rank 0's {when}: "
        f"{', '.join(shown)}{more}. Is the optimizer wrapped, are all variables broadcast before "
        "the first step, and does nothing else change them on some peers only, as a callback does "
        "(one that sets the learning rate, say) that not all peers have?"
    )
