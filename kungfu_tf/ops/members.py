"""The variables that peers exchange: are they the same on all of them, and if not, which differ?

Peers match what they exchange by its ordinal in a list. So the lists must be the same: of each
variable the shape, the dtype and the name. Names that differ in their numbers are the same, since a
peer that has built more models counts on.
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
    """What other peers are told of a variable."""

    name: str
    dtype: str
    shape: str

    @property
    def bare_name(self) -> str:
        """Its last two parts without numbers: a model that was loaded lacks those before."""
        parts = self.name.split(":")[0].split("/")[-2:]
        return "/".join(re.sub(r"_?\d+", "", part) for part in parts)

    @property
    def kind(self) -> tuple[str, str]:
        """What must be equal to the letter."""
        return self.dtype, self.shape

    def __str__(self) -> str:
        return f"{self.name!r} ({self.dtype} {self.shape})"


def is_variable(value: Any) -> bool:
    """Whether it has a name that tells which variable it is: of TensorFlow or Keras 3."""
    return isinstance(value, tf.Variable) or hasattr(value, "path")


def identity(variables: Sequence[Any], codes: tuple[int, ...] = ()) -> int:
    """A number of 31 bits that differs if the variables do, or their order, or the codes."""
    lines = [_line(*_parts_of(variable)) for variable in variables]
    return zlib.crc32("\n".join([*lines, str(codes)]).encode()) & 0x7FFFFFFF


def check_same(variables: Sequence[Any], *, name: str) -> None:
    """Raises, on every peer, if the lists of variables differ. Eager; all peers call it.

    Args:
        variables: Variables, or tensors, which have no name.
        name: What the lists are for: the name of the operations, and in the message.

    Raises:
        tf.errors.InvalidArgumentError: Names the first variable that differs, on two peers.
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
    """Its name, dtype and shape. A tensor has no name, and its shape may differ: operations see."""
    if is_variable(variable):
        return generations.name_of(variable), variable.dtype, variable.shape
    return "", variable.dtype, None


def _member(name: str, dtype: Any, shape: Any) -> _Member:
    return _Member(name, tf.as_dtype(dtype).name, str(tf.TensorShape(shape)))


@functools.lru_cache(maxsize=1 << 14)  # for eager code, which asks in each step
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
    """Also if one has a prefix that the other lacks, as Keras' slots of a model that was loaded.

    A name that the other list has somewhere is that variable's.
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
