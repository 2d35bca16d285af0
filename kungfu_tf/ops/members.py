"""Checks that the variables that peers exchange are the same, and finds the one that differs.

Peers match what they exchange by its place in a list. So their lists must have the same shapes,
dtypes and names. Names that differ only in numbers count as the same: Keras numbers its models, and
a peer may have built more of them.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.ops.any_tensors import gather_any
from kungfu_tf.upstream import generations


class _Member(NamedTuple):
    """What peers compare of a variable."""

    name: str
    dtype: str
    shape: str

    @property
    def bare_name(self) -> str:
        """Its last two parts, without numbers. A loaded model lacks the parts before."""
        parts = self.name.split(":")[0].split("/")[-2:]
        return "/".join(re.sub(r"_?\d+", "", part) for part in parts)

    @property
    def kind(self) -> tuple[str, str]:
        """What must be exactly equal."""
        return self.dtype, self.shape

    def __str__(self) -> str:
        return f"{self.name!r} ({self.dtype} {self.shape})"


def is_variable(value: Any) -> bool:
    """Whether it is a variable, of TensorFlow or Keras 3, which has a name."""
    return isinstance(value, tf.Variable) or hasattr(value, "path")


def identity(variables: Sequence[Any], codes: tuple[int, ...] = ()) -> int:
    """A number of 31 bits that differs if the variables do, or their order, or the codes."""
    lines = [_line(*_parts_of(variable)) for variable in variables]
    return zlib.crc32("\n".join([*lines, str(codes)]).encode()) & 0x7FFFFFFF


def check_same(variables: Sequence[Any], *, name: str) -> None:
    """Raises, on every peer, if the lists of variables differ. Eager; all peers call it.

    Args:
        variables: Variables, or tensors, which have no name.
        name: What the lists are for. It names the operations, and is in the message.

    Raises:
        tf.errors.InvalidArgumentError: It names the first variable that differs, on two peers.
    """
    mine = np.array([tuple(map(str.encode, _member(*_parts_of(v)))) for v in variables], object)
    gathered = gather_any([mine.reshape(-1, 3)], name=f"{name}/members")
    lists = [[_Member(*map(bytes.decode, row)) for row in rows] for [rows] in gathered]
    for rank, theirs in enumerate(lists):
        place = _first_difference(lists[0], theirs)
        if place is not None:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f"{name}: the peers' variables differ. Number {place} is "
                f"{_shown(lists[0], place)} on {peer.names_of([0])} and {_shown(theirs, place)} on "
                f"{peer.names_of([rank])}. All peers need the same variables in the same order",
            )


def _parts_of(variable: Any) -> tuple[str, Any, Any]:
    """Its name, dtype and shape. Of a tensor, the dtype alone: operations check its shape."""
    if is_variable(variable):
        return generations.name_of(variable), variable.dtype, variable.shape
    return "", variable.dtype, None


def _member(name: str, dtype: Any, shape: Any) -> _Member:
    return _Member(name, tf.as_dtype(dtype).name, str(tf.TensorShape(shape)))


@functools.lru_cache(maxsize=1 << 14)  # for eager code, which checks in each step
def _line(name: str, dtype: Any, shape: Any) -> str:
    member = _member(name, dtype, shape)
    return f"{member.bare_name} {member.kind}"


def _first_difference(ours: Sequence[_Member], theirs: Sequence[_Member]) -> int | None:
    names = [{member.bare_name for member in members} for members in (ours, theirs)]
    for place, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a.kind != b.kind or not _same_name(a.bare_name, b.bare_name, *names):
            return place
    return min(len(ours), len(theirs)) if len(ours) != len(theirs) else None


def _same_name(ours: str, theirs: str, our_names: set[str], their_names: set[str]) -> bool:
    """Whether two names are the same, even if one has a prefix that the other lacks.

    Keras' slots of a loaded model lack one. A name that is elsewhere in the other list is not the
    same.
    """
    if ours == theirs:
        return True
    if ours in their_names or theirs in our_names:
        return False
    (*scope, last), (*their_scope, their_last) = ours.split("/"), theirs.split("/")
    is_end = last.endswith(f"_{their_last}") or their_last.endswith(f"_{last}")
    return scope == their_scope and is_end


def _shown(members: Sequence[_Member], place: int) -> str:
    return str(members[place]) if place < len(members) else "missing"
