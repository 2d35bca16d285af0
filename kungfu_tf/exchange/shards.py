"""Optimizer state in shards: each peer has the slots of some variables, and the others are empty.

A slot is empty where its variable is another peer's: it has its name and its place, but no
elements. So the optimizer has as many variables on all peers, as the plain optimizer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from kungfu_tf import errors, ops, peer
from kungfu_tf.exchange.owners import deal
from kungfu_tf.replicas import local_variables
from kungfu_tf.upstream import generations

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Slot:
    """One slot of a variable.

    Attributes:
        variable: The optimizer's variable, which is empty if the slot is another peer's.
        shape: The shape that it has on its owner.
        owner: The rank that has it.
        is_mine: Whether that is this peer's.
    """

    variable: Any
    shape: tuple[int, ...]
    owner: int
    is_mine: bool

    @property
    def dtype(self) -> Any:
        """That of its elements, as NumPy has it."""
        return generations.native(self.variable).dtype.as_numpy_dtype


class Shards:
    """The owners of an optimizer's variables, and its slots.

    Args:
        title: What the program has wrapped the optimizer with, for messages.

    Attributes:
        title: The same.
        is_building: Whether the optimizer makes its slots now.
        own: The ids of its other variables that belong to one variable, each peer's own: of those
            of `kf.layers.local`, and accumulated gradients.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.is_building = False
        self.own: set[int] = set()
        self._owners: dict[Any, int] = {}  # by the variable's reference
        self._slots: dict[int, Slot] = {}  # by the id of the optimizer's variable
        self._others: dict[int, Array] = {}  # the values of other peers' slots, as above
        self._update: int | None = None  # after which they are these
        self._updates: Any = None  # a variable: how many were made
        self._is_emptied = False  # the slot that is being made
        self._rank, self._size, self._version = 0, 0, 0  # of the peers to which all was dealt

    def deal(self, variables: Iterable[Any]) -> None:
        """Deals variables to the present peers. Those of `kf.layers.local` are each peer's own.

        Args:
            variables: What the optimizer trains.
        """
        self._rank, self._size, self._version = peer.rank(), peer.size(), peer.membership_version()
        with tf.init_scope():
            self._updates = tf.Variable(0, dtype=tf.int64, trainable=False)
        given = [generations.native(v) for v in variables]
        shared = [v for v in given if not local_variables.is_local(v)]
        sizes = [math.prod(v.shape) * v.dtype.size for v in shared]
        for variable, owner in zip(shared, deal(sizes, self._size), strict=True):
            self._owners[variable.ref()] = owner

    def check_peers(self) -> list[Any]:
        """Lets a step fail if its peers are not those to which the variables were dealt.

        So it does where they may not be for long, because the job survives lost peers.

        Returns:
            What the step's exchange must come after, in a function.

        Raises:
            FailedPreconditionError: If it is known here.
            tf.errors.InvalidArgumentError: In a step that was traced before the peers changed.
        """
        if peer.launched() and peer.survives():
            raise errors.FailedPreconditionError(
                f"{self.title}: with -on-failure survive it cannot be: a lost peer's slots are "
                "lost with it. Continue from a BackupAndRestore, on any number of peers"
            )
        size = self._size or peer.size()  # they are dealt in this step
        said = f"{self.title}: its slots are those of {size} peers, which must stay. "
        said += "After a change make model and optimizer anew, from a file"
        if self._size and self._version != peer.membership_version():
            raise errors.FailedPreconditionError(said)
        check = tf.debugging.assert_equal(ops.cluster_size(), size, message=said)
        return [] if check is None else [check]

    def note_update(self) -> Any:
        """Counts an update. Returns the operation."""
        return self._updates.assign_add(1)

    def owner_of(self, variable: Any) -> int:
        """The rank that updates a variable."""
        return self._owners.get(generations.native(variable).ref(), self._rank)

    def is_mine(self, variable: Any) -> bool:
        """Whether this peer updates a variable."""
        return self.owner_of(variable) == self._rank

    def parts(self, variables: Iterable[Any]) -> dict[int, list[Any]]:
        """The variables by their owners, whose ranks ascend."""
        found: dict[int, list[Any]] = {rank: [] for rank in range(self._size)}
        for variable in variables:
            found[self.owner_of(variable)].append(variable)
        return {rank: part for rank, part in found.items() if part}

    @contextlib.contextmanager
    def slot_of(self, variable: Any) -> Iterator[Callable[[Any], Any]]:
        """Within it the optimizer makes a slot of a variable.

        Yields:
            A function to call with the slot, which returns it.
        """
        owner = self.owner_of(variable)

        def note(slot: Any) -> Any:
            local_variables.mark(slot, 1.0)  # of each peer's own shape
            is_mine = owner == self._rank
            self._slots[id(slot)] = Slot(slot, tuple(variable.shape), owner, is_mine)
            return slot

        self._is_emptied = owner != self._rank
        try:
            yield note
        finally:
            self._is_emptied = False

    def shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of what the optimizer makes: without elements if it is another peer's slot."""
        return (0,) if self._is_emptied else shape

    def is_slot(self, variable: Any) -> bool:
        """Whether an optimizer's variable was noted as a slot."""
        return id(variable) in self._slots

    def put(self, values: Mapping[int, Array]) -> None:
        """Takes this peer's parts of whole slots, and keeps the others until `drop`.

        Args:
            values: By the ids of the optimizer's variables, those of the present step.
        """
        for key, slot in self._slots.items():
            if slot.is_mine and key in values:
                slot.variable.assign(values[key])
        self._keep(values)

    def whole(self, variable: Any) -> Array:
        """The whole of a slot, as it is now.

        Raises:
            FailedPreconditionError: If it has it not.
        """
        slot = self._slots[id(variable)]
        if slot.is_mine:
            return generations.native(variable).numpy()
        if not self._has_others() or id(variable) not in self._others:
            raise errors.FailedPreconditionError(
                f"{self.title}: {peer.name_of(peer.rank())} has no slots of variables that "
                "other peers update, so it cannot save the optimizer. Call "
                "optimizer.kungfu_algorithm.share_state() on every peer right before rank 0 saves, "
                "or save without the optimizer (include_optimizer=False)"
            )
        return self._others[id(variable)]

    def gather(self, *, name: str) -> None:
        """Gives rank 0 all slots, in the memory of its host. Eager; all peers call it."""
        self.drop()
        whole: dict[int, Array] = {}
        for dtype, keys in self._by_dtype().items():
            mine = [self._slots[key] for key in keys if self._slots[key].is_mine]
            parts = [generations.native(s.variable).numpy().reshape(-1) for s in mine]
            flat = np.concatenate([np.zeros([0], dtype), *parts])
            gathered = ops.gather(flat, concat=True, name=f"{name}/{dtype.name}").numpy()
            if peer.is_root():
                whole.update(self._cut(gathered, keys))
        if peer.is_root():
            self._keep(whole)

    def scatter(self, *, name: str) -> None:
        """Gives each peer its slots, if one has the whole of them. Eager; all peers call it."""
        has = np.array([self._has_others()], np.uint8)
        holders = np.flatnonzero(ops.all_gather(has, concat=True, name=f"{name}/holders").numpy())
        for number, slot in enumerate(self._slots.values() if len(holders) else ()):
            value = self.whole(slot.variable) if has[0] else np.zeros(slot.shape, slot.dtype)
            value = ops.broadcast(value, root=int(holders[0]), name=f"{name}/{number}").numpy()
            if slot.is_mine:
                slot.variable.assign(value)
        self.drop()

    def drop(self) -> None:
        """Lets go of the slots of others."""
        self._others, self._update = {}, None

    def _keep(self, values: Mapping[int, Array]) -> None:
        self._others = {k: v for k, v in values.items() if not self._slots[k].is_mine}
        self._update = int(self._updates.numpy())

    def _has_others(self) -> bool:
        """Whether it has the slots of all other peers, as they are now."""
        return bool(self._others) and self._update == int(self._updates.numpy())

    def _by_dtype(self) -> dict[Any, list[int]]:
        found: dict[Any, list[int]] = {}
        for key, slot in self._slots.items():
            found.setdefault(np.dtype(slot.dtype), []).append(key)
        return found

    def _cut(self, gathered: Array, keys: Sequence[int]) -> dict[int, Array]:
        """The slots out of what all peers have sent, in the order of their ranks."""
        in_order = sorted(keys, key=lambda key: self._slots[key].owner)  # stable
        sizes = [math.prod(self._slots[key].shape) for key in in_order]
        parts = np.split(gathered, np.cumsum(sizes)[:-1])
        return {
            key: part.reshape(self._slots[key].shape)
            for key, part in zip(in_order, parts, strict=True)
        }
