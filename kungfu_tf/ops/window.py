"""Windows: neighbours leave values for each other, and take them when they come by.

No peer waits for another one's step. `kungfu_tf.ops` describes what all operations have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import errors, peer
from kungfu_tf.ops import kernels, meeting, neighbor, outbox, store, tensors
from kungfu_tf.ops.neighborhood import neighborhood, numbers
from kungfu_tf.ops.scaling import times
from kungfu_tf.ops.window_edges import Edges, Weights
from kungfu_tf.topology import Topology


class Window:
    """Values of this peer and of its sources, which these leave here without any wait.

    Made by `new_window`. What others put or accumulate stays with them until `update` or `versions`
    of this peer fetches it, so nobody writes into another peer's memory.

    Attributes:
        name: Its name.
        sources: The ranks whose values this peer takes, ascending.
        targets: The ranks for which it leaves values, ascending.
    """

    def __init__(self, name: str, topology: Topology, template: Any, *, zeros: bool) -> None:
        """See `new_window`, which checks the arguments and meets the other peers."""
        self.name = name
        self._edges = Edges(name, topology)
        self._structure = tf.nest.map_structure(lambda _: None, template)
        values = [tf.convert_to_tensor(value) for value in tf.nest.flatten(template)]
        self._specs = [tf.TensorSpec(value.shape, value.dtype) for value in values]
        self._epoch = tf.Variable(outbox.epoch(), trainable=False, dtype=tf.int64)
        self.sources, self.targets = self._edges.sources, self._edges.targets
        self._zeros = zeros
        self._values = _variables(values)
        self._of_sources = [_variables(values) for _ in self.sources]
        self._weight = tf.Variable(1.0, trainable=False, dtype=tf.float64)
        self._weights = _variables([tf.ones([], tf.float64)] * len(self.sources))
        self._counts = _variables([tf.zeros([], tf.int64)] * len(self.sources))
        self._freed = False

    @property
    def value(self) -> Any:
        """This peer's own value, as the template."""
        return self._packed([value.read_value() for value in self._values])

    @property
    def weight(self) -> Any:
        """The weight w of this peer's value, a float64 scalar, 1 at first.

        It travels with the values, and `put`, `accumulate` and `update` multiply and add it as
        these. So in push-sum, where some peers get more than others, value / weight is a mean in
        which all count alike.
        """
        return self._weight.read_value()

    @kernels.operation
    def put(
        self, value: Any, *, self_weight: Any = 1.0, weights: Weights = None, step: Any = 0
    ) -> None:
        """Leaves a value for this peer's targets, in the place of what it has left before.

        `self_weight · value` becomes this peer's own value. It does not wait.

        Args:
            value: As the template.
            self_weight: The factor of what it keeps.
            weights: A factor for each target, a dict {rank: weight}; those that are not in it get
                nothing. Or a number for all. Default: 1 for the targets of the step.
            step: An integer: which matrix of the topology's cycle it is.

        Raises:
            InvalidArgumentError: If a rank is none of the targets, or the value is not as the
                template.
            FailedPreconditionError: If the window is freed.
            tf.errors.CancelledError: If there were errors, or a change of the peers or the
                strategy, meanwhile: all peers `restart` the window, or make it anew.
        """
        ones = self._edges.ones(step, "targets")
        self._leave("put", value, self_weight, weights, ones, replaces=True)

    @kernels.operation
    def accumulate(
        self, value: Any, *, self_weight: Any = None, weights: Weights = None, step: Any = 0
    ) -> None:
        """Adds a value to what this peer has left for its targets. It does not wait.

        `self_weight · value` becomes this peer's own value.

        Args:
            value: As the template.
            self_weight: The factor of what it keeps. Default: the topology's W[i, i], for rank i.
            weights: As for `put`. Default: the topology's W[j, i], for target j.
            step: As for `put`.

        Raises:
            InvalidArgumentError: As from `put`, as the others.
        """
        own, column = self._edges.of_topology(step, "targets")
        kept = own if self_weight is None else self_weight
        self._leave("accumulate", value, kept, weights, column, replaces=False)

    @kernels.operation
    def publish(self, value: Any) -> None:
        """Makes a value this peer's own, which others can `get`. It does not wait.

        Args:
            value: As the template.

        Raises:
            InvalidArgumentError: If the value is not as the template.
            FailedPreconditionError: If the window is freed.
        """
        given = self._given(value, "publish")
        store.save_group(given, self._tag("own"), keep=1)
        self._assign(self._values, given)

    @kernels.operation
    def get(self, *, weights: Weights = None, step: Any = 0) -> None:
        """Fetches what this peer's sources have published, for the next `update`.

        It takes the place of what they have put or accumulated before, and counts with weight 1.

        Args:
            weights: A factor for each source, as for `put`. Default: 1 for those of the step.
            step: As for `put`.

        Raises:
            InvalidArgumentError: If a rank is none of the sources.
            FailedPreconditionError: If the window is freed.
            tf.errors.UnavailableError: If a source has ended or is gone.
        """
        self._check("get")
        sources = self._edges.chosen("get", weights, "sources", self._edges.ones(step, "sources"))
        for place, weight in enumerate(sources):
            _where_not_zero(weight, self._getting(place, weight))

    @kernels.operation
    def update(
        self,
        *,
        self_weight: Any = None,
        weights: Weights = None,
        step: Any = 0,
        reset: bool = False,
    ) -> Any:
        """Makes the weighted sum of this peer's value and its sources' the new own value.

        `v ← self_weight·v + Σ weights[j]·(what source j has left)`, added in this order, the
        sources by rank. It fetches what they have left since the last time, and does not wait for
        more: of a source that has left nothing new, what is here counts again.

        Args:
            self_weight: The weight of this peer's value. Default: the topology's W[i, i].
            weights: The weight for each source, as for `put`. Default: the topology's W[i, j].
            step: As for `put`.
            reset: Whether the sources' values are zeros afterwards, as for push-sum: there each is
                used once.

        Returns:
            The new value, as the template.

        Raises:
            InvalidArgumentError: If a rank is none of the sources.
            FailedPreconditionError: If the window is freed.
            tf.errors.InvalidArgumentError: If a source leaves another dtype or shape.
            tf.errors.UnavailableError: If a source has ended or is gone.
            tf.errors.CancelledError: As from `put`.
        """
        self._check("update")
        own, row = self._edges.of_topology(step, "sources")
        sources = self._edges.chosen("update", weights, "sources", row)
        mine = numbers(own if self_weight is None else self_weight, tf.float64)
        self._collect()
        totals = [times(value.read_value(), mine) for value in self._values]
        total = self._weight * mine
        for place, weight in enumerate(sources):
            weight = numbers(weight, tf.float64)
            left = [value.read_value() for value in self._of_sources[place]]
            sums = [t + times(value, weight) for t, value in zip(totals, left, strict=True)]
            is_none = tf.equal(weight, 0)  # 0·∞ would be NaN
            totals = [tf.where(is_none, t, s) for t, s in zip(totals, sums, strict=True)]
            total += self._weights[place] * weight
            self._counts[place].assign(0)
            if reset:
                self._assign(self._of_sources[place], [tf.zeros_like(value) for value in left])
                self._weights[place].assign(0.0)
        self._assign(self._values, totals)
        self._weight.assign(total)
        return self._packed([tf.identity(value) for value in totals])

    @kernels.operation
    def versions(self) -> Any:
        """How often each source has put, accumulated or been got from since the last `update`.

        It fetches what they have left.

        Returns:
            An int64 tensor [sources], in the order of `sources`.

        Raises:
            FailedPreconditionError: If the window is freed.
            tf.errors.OpError: As from `update`.
        """
        self._check("versions")
        self._collect()
        return tf.stack([count.read_value() for count in self._counts] or tf.zeros([0], tf.int64))

    def restart(self, value: Any) -> None:
        """Begins anew with a value, as if newly made. Nothing is left for anybody then.

        All peers call it, in eager code, and wait for each other. After an error that other peers
        were told of, or a change of the strategy, it makes the window usable again.

        Args:
            value: As the template.

        Raises:
            InvalidArgumentError: If the value is not as the template.
            FailedPreconditionError: If the window is freed, or peers have come or gone: then make a
                new one.
        """
        given = self._given(value, "restart")
        if not self._edges.hold():
            raise errors.FailedPreconditionError(
                f"restart of window '{self.name}': peers have come or gone, make a new one"
            )
        store.forget(self._tag(""))
        self._epoch.assign(outbox.epoch())
        store.save_group(given, self._tag("own"), keep=1)
        self._assign(self._values, given)
        self._weight.assign(1.0)
        for place, kept in enumerate(self._of_sources):
            self._assign(kept, map(tf.zeros_like, given) if self._zeros else given)
            self._weights[place].assign(0.0 if self._zeros else 1.0)
            self._counts[place].assign(0)
        meeting.barrier(name=self._tag("begins"))

    def free(self) -> None:
        """Gives the memory back. All peers call it, in eager code, and wait for each other.

        Raises:
            FailedPreconditionError: If it is freed already.
        """
        self._check("free")
        self._freed = True
        meeting.barrier(name=self._tag("freed"))
        store.forget(self._tag(""))

    def _tag(self, part: str) -> str:
        return f"window/{self.name}/{part}"

    def _packed(self, values: Sequence[Any]) -> Any:
        return tf.nest.pack_sequence_as(self._structure, values)

    def _check(self, what: str) -> None:
        if self._freed:
            raise errors.FailedPreconditionError(f"{what}: window '{self.name}' is freed")

    def _given(self, value: Any, what: str) -> list[Any]:
        """The tensors of a value.

        Raises:
            InvalidArgumentError: If they are not as the template.
        """
        self._check(what)
        title = f"{what} into window '{self.name}'"
        given = [tensors.to_tensor(each, title) for each in tf.nest.flatten(value)]
        found = [(tensor.dtype, tensor.shape) for tensor in given]
        if [dtype for dtype, _ in found] != [spec.dtype for spec in self._specs] or not all(
            shape.is_compatible_with(spec.shape)
            for (_, shape), spec in zip(found, self._specs, strict=True)
        ):
            raise errors.InvalidArgumentError(
                f"{title}: {_described(found)}, and the window is of "
                f"{_described([(spec.dtype, spec.shape) for spec in self._specs])}"
            )
        return given

    def _leave(
        self,
        what: str,
        value: Any,
        self_weight: Any,
        weights: Weights,
        default: Sequence[Any],
        *,
        replaces: bool,
    ) -> None:
        """Posts a value for the targets, and keeps a part."""
        given = self._given(value, what)
        kept = numbers(self_weight, tf.float64)
        targets = self._edges.chosen(what, weights, "targets", default)
        for target, weight in zip(self.targets, targets, strict=True):
            _where_not_zero(weight, self._posting(given, target, weight, replaces=replaces))
        self._assign(self._values, [times(tensor, kept) for tensor in given])
        self._weight.assign(self._weight * kept)

    def _posting(
        self, given: Sequence[Any], target: int, weight: Any, *, replaces: bool
    ) -> Callable[[], None]:
        def post() -> None:
            factor = numbers(weight, tf.float64)
            outbox.post(
                [times(tensor, factor) for tensor in given],
                self._tag(f"{self._edges.rank}-{target}"),
                self._epoch,
                self._weight * factor,
                replaces=replaces,
            )

        return post

    def _getting(self, place: int, weight: Any) -> Callable[[], None]:
        def get() -> None:
            values, _ = store.request_group(self.sources[place], self._specs, self._tag("own"))
            factor = numbers(weight, tf.float64)
            self._assign(self._of_sources[place], [times(value, factor) for value in values])
            self._weights[place].assign(factor)
            self._counts[place].assign_add(1)

        return get

    def _collect(self) -> None:
        """Fetches what the sources have left: from all of them at the same time."""
        found = []
        for place, source in enumerate(self.sources):
            # Not before what was fetched from this one the last time is here.
            with tf.control_dependencies([self._counts[place].read_value()]):
                tag = self._tag(f"{source}-{self._edges.rank}")
                found.append(outbox.collect(source, self._specs, tag, self._epoch))
        for place, new in enumerate(found):
            values = self._of_sources[place]
            before = [tf.where(new.replaces, tf.zeros_like(v), v.read_value()) for v in values]
            sums = [old + value for old, value in zip(before, new.values, strict=True)]
            self._assign(values, sums)
            weight = self._weights[place]
            here = weight.read_value()
            weight.assign(tf.where(new.replaces, tf.zeros_like(here), here) + new.weight)
            self._counts[place].assign_add(new.count)

    @staticmethod
    def _assign(variables: Sequence[Any], values: Iterable[Any]) -> None:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def new_window(template: Any, *, topology: Topology, name: str, zeros: bool = False) -> Window:
    """Makes a window, through which neighbours exchange values without waiting for each other.

    All peers make it, in eager code, with the same name and topology. It lasts until `free`, an
    error that other peers are told of, or a change of the peers or the strategy. Then all restart
    it, or make it anew. A peer holds its value, one for each source, and for each target what that
    has not fetched yet.

    Source: Ying et al., "BlueFog: Make Decentralized Algorithms Practical for Optimization and Deep
    Learning", 2021, arXiv:2111.04287.

    Args:
        template: A tensor, or a structure of tensors of one floating or complex dtype, with whole
            shapes. It is this peer's value at first, and published.
        topology: Who leaves values for whom, the same on all peers: those who are neighbours in any
            step of its cycle.
        name: Its name.
        zeros: Whether what sources have left is zeros at first, as push-sum wants it. Default: the
            template, so that peers that have put nothing yet change nothing.

    Returns:
        A `Window` with `put`, `accumulate`, `publish`, `get`, `update`, `versions`, `restart` and
        `free`.

    Raises:
        InvalidArgumentError: If dtypes differ within the template, or the topology is for another
            number of peers.
        UnsupportedTypeError: If the dtype is not floating or complex.
        UnimplementedError: In a graph.
        tf.errors.InvalidArgumentError: If topology, dtype or shapes differ between neighbours.
        tf.errors.FailedPreconditionError: If the job survives lost peers.

    Example:

    ```python
    window = kf.ops.new_window(x, topology=kf.topology.ring(), name="x")
    for _ in range(100):
        window.put(x)
        x = window.update()  # the mean of its own and what the neighbours have put last
    ```
    """
    what = f"new_window '{name}'"
    if not tf.executing_eagerly():
        raise errors.UnimplementedError(f"{what}: windows are made in eager code")
    values = [tensors.to_tensor(value, what) for value in tf.nest.flatten(template)]
    for value in values:
        tensors.check_fractions(value, f"{what}: a weighted sum", value)
    if len({value.dtype for value in values}) != 1:
        found = [(value.dtype, value.shape) for value in values]
        raise errors.InvalidArgumentError(f"{what}: one dtype, not {_described(found)}")
    window = Window(name, topology, template, zeros=zeros)
    # What peers must have in common is what a sum of neighbours compares.
    for step in range(topology.length(peer.size())):
        near = neighborhood(what, topology, step, None, None, None)
        neighbor.weighted_sums(values, near, what=what, tag=f"window/{name}/made")
    window.restart(template)
    return window


def _variables(values: Sequence[Any]) -> list[Any]:
    return [tf.Variable(value, trainable=False) for value in values]


def _described(found: Sequence[tuple[tf.DType, tf.TensorShape]]) -> str:
    return ", ".join(f"{dtype.name} {shape}" for dtype, shape in found)


def _where_not_zero(weight: Any, act: Callable[[], None]) -> None:
    """Does it unless the weight is 0. Of a weight that only the graph knows it depends there."""
    known = tf.get_static_value(weight) if tf.is_tensor(weight) else weight
    if known is not None:
        return act() if known != 0 else None

    def acting() -> Any:
        act()
        return tf.constant(0)

    tf.cond(tf.not_equal(weight, 0), acting, lambda: tf.constant(0))
    return None
