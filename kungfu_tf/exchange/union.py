"""Completes this peer's gradients with zeros for those that only other peers have.

A step may leave variables without a gradient, and different ones on each peer, such as the heads of
several tasks. In one process, on the batches of all peers, a variable would have a gradient if any
batch gave it one. So the peers agree on the union of their gradients. They do so when a step is
traced, and never while it runs. A variable without a gradient on any peer keeps None.

A peer may trace a step again alone, and must not wait for others then. So an agreement is kept, and
used again if

- this peer has the same gradients as before; or
- it has fewer gradients, and peers differed before.

In a TF1 graph the peers cannot agree while it is built. There peers that differ get an error.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import context, peer
from kungfu_tf.exchange.codec import Codec, refuse_different
from kungfu_tf.ops import members, store, uneven_rows
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.plain_message import plain_message

# The kind of each gradient: 0 if there is none, else the number of its dtype. For a sparse one 256
# times the number of its indices' dtype is added.
Kinds = tuple[int, ...]

_SPARSE = 256


@tf.autograph.experimental.do_not_convert
def completed(
    gradients: Sequence[Any],
    variables: Sequence[Any],
    *,
    name: str,
    compression: Codec | None = None,
) -> list[Any]:
    """The gradients, with zeros for those that only other peers have.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        variables: The variables that they belong to, the same on all peers, in the same order.
        name: The prefix of the names of the operations.
        compression: The codec that they travel by, the same on all peers.

    Raises:
        tf.errors.InvalidArgumentError: On every peer, if the variables or codecs differ between
            peers.
    """
    is_graph = not tf.compat.v1.executing_eagerly_outside_functions()
    is_alone = peer.is_single_process() or not gradients
    if is_alone or is_graph or context.current().is_rehearsal:
        return list(gradients)
    mine = kinds_of(gradients)
    known = _known_of(name, variables, repr(compression))
    if peer.joining():
        known.traced_alone.add(mine)
        return list(gradients)
    kinds = known.find(mine)
    if kinds is None:
        with tf.init_scope():
            kinds = known.agree(mine, variables)
    if kinds == mine:
        return list(gradients)
    return [_of_kind(*each) for each in zip(kinds, gradients, variables, strict=True)]


def kinds_of(gradients: Sequence[Any]) -> Kinds:
    """The kind of each gradient."""
    return tuple(map(_kind_of, gradients))


def has_outdated_traces() -> bool:
    """Whether this newcomer has traced steps that exchange fewer gradients than other peers' steps.

    It must trace them again then. Each trace counts in one call only.
    """
    return True in [known.is_outdated() for known in list(_known.values())]


class _Known:
    """The agreements for one list of variables.

    Args:
        name: The prefix of the names of the operations.
        codec: What the codec is called by which they travel.
        identity: The identity of the variables (`members.identity`).
        number: How many lists of this identity there were before, under this name.
        references: Weak references to the variables, which drop this object with a variable.

    Attributes:
        traced_alone: The kinds of gradients in steps that were traced before this peer was taken
            in.
    """

    def __init__(
        self, name: str, codec: str, identity: int, number: int, references: Sequence[Any]
    ) -> None:
        self.traced_alone: set[Kinds] = set()
        self._name = name
        self._codec = codec
        self._identity = identity
        self._number = number
        self._references = references
        self._union_of: dict[Kinds, Kinds] = {}
        self._last_of_differing: Kinds | None = None  # the last union of peers that differed

    def find(self, mine: Kinds) -> Kinds | None:
        """The union for this peer's gradients; None if the peers must agree first."""
        common = self._last_of_differing
        if mine not in self._union_of and common is not None and _is_within(mine, common):
            return common
        return self._union_of.get(mine)

    def agree(self, mine: Kinds, variables: Sequence[Any]) -> Kinds:
        """The union of all peers' gradients. A newcomer gets the earlier one of the others.

        Raises:
            tf.errors.InvalidArgumentError: As from `completed`.
        """
        union = self._of_others(mine)
        if union is not None:
            self._note([mine], union)
            return union
        table = self._gather(mine, variables)
        union = _union(table, variables, self._name)
        self._note(table, union)
        return union

    def is_outdated(self) -> bool:
        """Whether others exchange more than a step that was traced alone."""
        alone, self.traced_alone = self.traced_alone, set()
        return any(self._of_others(mine) not in (None, mine) for mine in alone)

    def _gather(self, mine: Kinds, variables: Sequence[Any]) -> list[Kinds]:
        try:
            agreed = [self._identity, zlib.crc32(self._codec.encode())]
            rows = uneven_rows.gather([*agreed, *mine], name=f"{self._name}/union")
        except tf.errors.DeadlineExceededError as error:
            raise tf.errors.DeadlineExceededError(
                None,
                None,
                f"{plain_message(error)}. This peer has traced a step, and asks which variables "
                "have gradients on the other peers: all must trace such a step at the same place",
            ) from None
        if len({(len(row), int(row[0])) for row in rows}) > 1:
            members.check_same(variables, name=self._name)
        if len({int(row[1]) for row in rows}) > 1:
            refuse_different(self._codec, name=self._name)
        return [tuple(row[2:].tolist()) for row in rows]

    def _note(self, table: Sequence[Kinds], union: Kinds) -> None:
        self._union_of.update(dict.fromkeys(table, union))
        differed = any(kinds != union for kinds in table)
        if differed:
            self._last_of_differing = union
        if peer.elastic() and context.current().group is None:
            saved = tf.constant([peer.membership_version(), *union], tf.int64)
            for kinds in {*table, *([_ANY] if differed else [])}:
                store.save_group([saved], self._tag(kinds), keep=1)

    def _of_others(self, mine: Kinds) -> Kinds | None:
        """The union that the others agreed on before this peer came, from rank 0; None: none."""
        if not peer.elastic() or not peer.membership_version() or peer.is_root():
            return None
        if context.current().group is not None:  # which newcomers make with the others
            return None
        spec = tf.TensorSpec([1 + len(mine)], tf.int64)
        for kinds in (mine, _ANY):
            try:
                [saved], _ = store.request_group(0, [spec], self._tag(kinds), wait=False)
            except tf.errors.NotFoundError:
                continue
            version, *union = saved.numpy().tolist()
            if version < peer.membership_version() and _is_within(mine, union):
                return tuple(union)
        return None

    def _tag(self, kinds: Kinds) -> str:
        code = members.identity([], kinds)
        return f"{self._name}/union/{self._identity}/{self._number}/{code}"


_ANY: Kinds = ()

_known: dict[Any, _Known] = {}
_numbers: dict[Any, int] = {}


def _known_of(name: str, variables: Sequence[Any], codec: str) -> _Known:
    ids = [id(v) if members.is_variable(v) else tf.as_dtype(v.dtype).name for v in variables]
    group = context.current().group
    key = (name, codec, group and group.number, *ids)
    if key not in _known:
        forget: Callable[[Any], Any] = lambda _: _known.pop(key, None)  # noqa: E731
        references = [weakref.ref(v, forget) for v in variables if members.is_variable(v)]
        identity = members.identity(variables)
        number = _numbers[name, identity] = _numbers.get((name, identity), -1) + 1
        _known[key] = _Known(name, codec, identity, number, references)
    return _known[key]


def _kind_of(gradient: Any) -> int:
    if gradient is None:
        return 0
    dtype: int = tf.as_dtype(gradient.dtype).base_dtype.as_datatype_enum
    if isinstance(gradient, tf.IndexedSlices):
        dtype += _SPARSE * gradient.indices.dtype.as_datatype_enum
    return dtype


def _is_within(mine: Sequence[int], union: Sequence[int]) -> bool:
    """Whether gradients of these kinds can be completed to the union."""
    pairs = zip(mine, union, strict=True)
    return all(not kind or common in (kind, kind % _SPARSE) for kind, common in pairs)


def _union(table: Sequence[Kinds], variables: Sequence[Any], name: str) -> Kinds:
    """The common kind for each variable. If one peer's gradient is dense, all become dense."""
    union = []
    for place, kinds in enumerate(zip(*table, strict=True)):
        found = set(kinds) - {0}
        dtypes = [kind % _SPARSE for kind in kinds]
        if len(set(dtypes) - {0}) > 1:
            first = next(rank for rank, dtype in enumerate(dtypes) if dtype)
            other = next(r for r, dtype in enumerate(dtypes) if dtype not in (0, dtypes[first]))
            shown = [
                f"{tf.as_dtype(dtypes[r]).name} on {peer.names_of([r])}" for r in (first, other)
            ]
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f"{name}: the gradient of {generations.name_of(variables[place])!r} is "
                f"{' and '.join(shown)}",
            )
        is_dense = any(kind < _SPARSE for kind in found)
        union.append((min(found) if is_dense else max(found)) if found else 0)
    return tuple(union)


def _of_kind(kind: int, gradient: Any, variable: Any) -> Any:
    if kind == _kind_of(gradient):
        return gradient
    dtype = tf.as_dtype(kind % _SPARSE)
    shape = tf.TensorShape(variable.shape)
    if kind < _SPARSE:
        return tf.zeros(shape, dtype) if gradient is None else tf.convert_to_tensor(gradient)
    indices_dtype = tf.as_dtype(kind // _SPARSE)
    if gradient is None:
        values, indices = tf.zeros([0, *shape[1:]], dtype), tf.zeros([0], indices_dtype)
        return tf.IndexedSlices(values, indices, tf.constant(shape.as_list(), tf.int32))
    indices = tf.cast(gradient.indices, indices_dtype)
    return tf.IndexedSlices(gradient.values, indices, gradient.dense_shape)
