"""Methods whose peers meet sometimes, and move an anchor that all have."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from kungfu_tf import errors, ops, peer
from kungfu_tf.context import graph_state
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.exchange.periodic import Periodic
from kungfu_tf.exchange.schedule import Schedule
from kungfu_tf.exchange.widening import widened
from kungfu_tf.upstream import generations


class Anchored(Periodic):
    """At a meeting the anchor θ follows the mean of the peers' θ − v, and then v ← θ.

    The anchor is what is evaluated and saved. A subclass says in `move` how it follows.

    Args:
        schedule: As for `Periodic`.
        compression: As for `Periodic`.

    Attributes:
        no_graphs: Why it does not work in graphs of TF1.
    """

    no_graphs: ClassVar[str] = "its anchors cannot be in graphs of TF1"

    def __init__(self, schedule: Schedule, compression: Codec | None = None) -> None:
        super().__init__(schedule, compression)
        self._anchors: dict[Any, Any] = {}  # by references of the variables
        self._has_begun = graph_state.State(
            lambda: graph_state.variable(False, tf.bool, "meetings/has_begun")
        )

    @property
    def anchors(self) -> list[Any]:
        """Variables, in the order of those that they stand for; none before the first step."""
        return list(self._anchors.values())

    @functools.cached_property
    def state(self) -> tf.Module:
        """The counters of steps; from the first step on also the anchors."""
        state = super().state
        state.has_begun = self._has_begun.get()
        return state

    def move(self, anchors: Sequence[Any], means: Sequence[Any]) -> None:
        """Moves the anchors.

        Args:
            anchors: Variables.
            means: Of θ − v over all peers' samples, a tensor for each.
        """
        raise NotImplementedError

    def before_training(self) -> None:
        """Makes the anchors begin where the model is."""
        super().before_training()
        self._has_begun.get().assign(False)

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the anchors.

        Raises:
            UnimplementedError: In a TF1 graph, or if there are others already.
        """
        variables = [generations.native(v) for v in variables]
        if not tf.compat.v1.executing_eagerly_outside_functions():
            raise errors.UnimplementedError(f"{self.title}: {self.no_graphs}")
        if all(v.ref() in self._anchors for v in variables):
            return
        if self._anchors:
            raise errors.UnimplementedError(
                f"{self.title}: a step has variables that an earlier one did not have: its "
                "anchors move all at once. Give all variables to the first step, or wrap an "
                "optimizer for each part of the model"
            )
        super().build(variables)
        with tf.init_scope():
            self._anchors = {v.ref(): _anchor_of(v) for v in variables}
            self.state.anchors = self.anchors

    def before_step(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Begins before the first step that has no meeting of its own: all are where rank 0 is."""
        self.build(variables)
        super().before_step(variables)
        anchors = self._anchors_of(variables)

        def begin() -> Any:
            values = [v.read_value() for v in variables]
            if not peer.is_single_process():
                values = ops.group_broadcast(values, name=f"{self.name}/begin")
            assign(variables, values)
            assign(anchors, [widened(value) for value in values])
            self._has_begun.get().assign(True)
            return tf.constant(0)

        is_apart = self.schedule.steps.read_value() >= self.schedule.start
        begins = is_apart & ~self._has_begun.get().read_value()
        tf.cond(begins, begin, lambda: tf.constant(0))
        return []

    def moved(self, variables: Sequence[Any]) -> list[Any]:
        """θ − v of this peer, for each variable."""
        pairs = zip(self._anchors_of(variables), variables, strict=True)
        return [anchor - widened(v.read_value()) for anchor, v in pairs]

    def meet(self, variables: Sequence[Any], samples: Any, name: str = "outer") -> list[Any]:
        """Moves the anchors, and returns them."""
        movements = self.movements(variables, samples, name)
        self.move(self._anchors_of(variables), movements)
        return self._values_of(variables)

    def movements(self, variables: Sequence[Any], samples: Any, name: str) -> list[Any]:
        """By how much the anchors follow: the means of θ − v over all peers' samples.

        Args:
            variables: As for `meet`, like the rest.
            samples: How many this peer has had.
            name: The name of the operation, after that of the algorithm.
        """
        return self.mean(self.moved(variables), variables, samples, name)

    def evaluated(self, variable: Any) -> Any:
        """The anchor, which all peers have."""
        is_known = variable.ref() in self._anchors and bool(self._has_begun.get())
        return self._values_of([variable])[0] if is_known else None

    def _anchors_of(self, variables: Sequence[Any]) -> list[Any]:
        return [self._anchors[v.ref()] for v in variables]

    def _values_of(self, variables: Sequence[Any]) -> list[Any]:
        """The anchors, in the dtypes of their variables."""
        pairs = zip(self._anchors_of(variables), variables, strict=True)
        return [tf.cast(anchor.read_value(), v.dtype.base_dtype) for anchor, v in pairs]


def _anchor_of(variable: Any) -> tf.Variable:
    name = f"anchor/{generations.name_of(variable).split(':')[0]}"
    return tf.Variable(widened(variable), trainable=False, name=name)
