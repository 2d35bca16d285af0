"""Checks that the peers' variables are equal, and says which differ, and where.

Every peer makes a digest of each variable, 8 bytes, and one consensus compares them. Only if they
differ the digests are gathered, to say more.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from kungfu_tf import errors, ops, peer
from kungfu_tf.ops import uneven_rows
from kungfu_tf.replicas.broadcast import values_from_root
from kungfu_tf.replicas.rounding import is_rounding
from kungfu_tf.upstream import generations

Digests = npt.NDArray[np.int64]

_SHOWN = 5  # variables


def check_equal(variables: Sequence[Any], when: str, *, repairs_rounding: bool = False) -> None:
    """Raises, on every peer, unless the variables are bitwise equal on all of them. Eager.

    Args:
        variables: The variables, as many on every peer, in the same order.
        when: The end of the message, such as "after the first step".
        repairs_rounding: Whether differences as small as those of rounding are no error. All peers
            get rank 0's values then.

    Raises:
        DivergenceError: If variables differ from rank 0's. It names them, the ranks and hosts, and
            says by how much.
        tf.errors.OpError: As any collective.
    """
    digests = digests_of_variables(variables)
    if bool(ops.consensus(digests, name="check_equal/consensus")):
        return
    rows = uneven_rows.gather(digests, name="check_equal/digests")
    different = [generations.native(variables[i]) for i, _ in _different(rows)]
    sizes = list(map(_size_of, different))
    if repairs_rounding and sizes and all(size.is_rounding for size in sizes):
        values_from_root(different, 0)
        return
    raise _divergence(_difference(rows, variables, when, sizes))


class _Size(NamedTuple):
    """The size of a difference, on the peer where it is largest.

    Attributes:
        off: The largest absolute difference of an element.
        largest: The largest absolute value on rank 0.
        is_rounding: Whether rounding may be the cause.
    """

    off: float
    largest: float
    is_rounding: bool

    def __str__(self) -> str:
        return f", by {self.off:.2g} where values go up to {self.largest:.2g}"


def _size_of(variable: Any) -> _Size:
    """The size of the difference between a variable and rank 0's. All peers call it."""
    mine = np.asarray(tf.convert_to_tensor(variable))
    roots = ops.broadcast(mine, name="check_equal/roots").numpy()
    off, largest = (float(np.abs(a).max(initial=0)) for a in (_wide(mine) - _wide(roots), roots))
    size = np.array([off, largest, float(not is_rounding(mine, roots))])
    off, largest, is_more = ops.all_reduce(size, op="max", name="check_equal/size").numpy()
    return _Size(float(off), float(largest), not is_more)


def _wide(values: Any) -> Any:
    return values.astype(np.complex128 if np.iscomplexobj(values) else np.float64)


class GraphCheck:
    """`check_equal` for a TF1 graph. It is made while the graph is built, and takes a session."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self._variables = list(variables)
        self._digests = tf.compat.v1.placeholder(tf.int64, [None])
        self._equal = ops.consensus(self._digests, name="check_equal/consensus")
        self._gathered = ops.all_gather(self._digests, concat=True, name="check_equal/digests")

    def __call__(self, session: Any, when: str) -> None:
        """Raises as `check_equal` does."""
        digests = digests_of(session.run(self._variables))
        if not session.run(self._equal, {self._digests: digests}):
            lengthened = uneven_rows.with_length(digests)
            rows = uneven_rows.cut(session.run(self._gathered, {self._digests: lengthened}))
            raise _divergence(_difference(rows, self._variables, when))


def digests_of_variables(variables: Iterable[Any]) -> Digests:
    """8 bytes of each variable. Eager. Copies no values, since a model may fill the memory."""
    return digests_of(np.asarray(tf.convert_to_tensor(generations.native(v))) for v in variables)


def digests_of(values: Iterable[Any]) -> Digests:
    """8 bytes of each array."""
    hashes = [hashlib.blake2b(_bytes_of(value), digest_size=8) for value in values]
    return np.frombuffer(b"".join(h.digest() for h in hashes), dtype=np.int64)


def _bytes_of(value: Any) -> memoryview:
    """The bytes of an array of any dtype, such as bfloat16, which has no buffer, or objects."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = np.array(repr(value.tolist()))
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8).data


def _different(rows: Sequence[Digests]) -> list[tuple[int, list[int]]]:
    """The variables that differ, with the ranks; none if peers have different numbers of them."""
    if len({len(row) for row in rows}) > 1:
        return []
    where = [
        (i, [rank for rank, row in enumerate(rows) if row[i] != rows[0][i]])
        for i in range(len(rows[0]))
    ]
    return [(i, ranks) for i, ranks in where if ranks]


def _divergence(message: str) -> errors.DivergenceError:
    return errors.DivergenceError(errors.linked("divergence", message))


def _difference(
    rows: Sequence[Digests], variables: Sequence[Any], when: str, sizes: Sequence[_Size] = ()
) -> str:
    """The message of the error. Without `sizes` the differences have not been measured."""
    lengths = [len(row) for row in rows]
    if len(set(lengths)) > 1:
        shown = [
            f"{count} on {peer.names_of([rank for rank, n in enumerate(lengths) if n == count])}"
            for count in dict.fromkeys(lengths)
        ]
        return f"the peers have different numbers of variables {when}: {', '.join(shown)}"
    different = _different(rows)
    shown = [
        f"{generations.name_of(variables[i])!r} on {peer.names_of(ranks)}{size}"
        for (i, ranks), size in zip(different[:_SHOWN], sizes or itertools.repeat(""), strict=False)
    ]
    more = f", and {len(different) - len(shown)} more" if len(different) > len(shown) else ""
    are_rounding = bool(sizes) and all(size.is_rounding for size in sizes)
    advice = _QUESTIONS
    if are_rounding:
        advice = f"{_ON_A_GPU}{_ROUNDING}" if tf.config.list_logical_devices("GPU") else _ROUNDING
    return (
        f"{len(different)} of {len(variables)} variables differ from rank 0's {when}: "
        f"{', '.join(shown)}{more}. {advice}"
    )


_QUESTIONS = (
    "Is the optimizer wrapped, are all variables broadcast before the first step, and does nothing "
    "else change them on some peers only, as a callback does (one that sets the learning rate, "
    "say) that not all peers have?"
)
_ON_A_GPU = (
    "On a GPU TensorFlow adds up the gradients of one row of a table in any order: call "
    "tf.config.experimental.enable_op_determinism(). "
)
_ROUNDING = (
    "So small are differences of rounding: a train step that changes weights by what each peer has "
    "computed for itself, and takes that back, leaves them. If it is meant, give fit a "
    "kungfu_tf.callbacks.BroadcastGlobalVariablesCallback(repairs_rounding=True): at each "
    "comparison all peers get rank 0's values"
)
