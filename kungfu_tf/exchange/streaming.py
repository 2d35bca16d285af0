"""Methods whose anchors move in fragments, while what the peers exchange travels beside steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import groups, peer
from kungfu_tf.context import graph_state
from kungfu_tf.exchange.anchored import Anchored
from kungfu_tf.exchange.assignments import assign, assign_when
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.exchange.counted_means import ratios, specs_with_counts, with_counts
from kungfu_tf.exchange.fragments import Fragments
from kungfu_tf.exchange.island import Island
from kungfu_tf.exchange.schedule import Schedule
from kungfu_tf.exchange.synchronous_means import synchronous_means
from kungfu_tf.exchange.widening import widened
from kungfu_tf.ops import begun, members
from kungfu_tf.replicas import sample_weights
from kungfu_tf.upstream import generations

_NONE = -1


class Streaming(Anchored):
    """Each fragment of the model has meetings of its own. They may end some steps later.

    ```
    at the meeting of fragment f:      Δ ← mean over peers of θ_f − v_f, which begins to travel
    `overlap` steps later:             move θ_f by Δ
                                       v_f ← merge·v_f + (1 − merge)·θ_f
    ```

    Between a meeting and its end nothing reads θ_f but what evaluates and saves. So θ_f may move as
    soon as Δ is here: `share_state` waits for it, and a single process moves at the meeting.

    Args:
        fragments: How many there are, and when they meet.
        compression: As for `Periodic`; None if meetings end later.
        merge: The part of a peer's own model that stays, from 0, if meetings end later.
        island: The peers that average their gradients in each step; None: this one alone.
    """

    def __init__(
        self,
        fragments: Fragments,
        compression: Codec | None = None,
        merge: float = 0.0,
        island: Island | None = None,
    ) -> None:
        super().__init__(Schedule(fragments.every), compression)
        self.fragments = fragments
        self.merge = merge
        self.island = island
        self._dealt: list[list[Any]] = []
        zeros = [0] * fragments.count
        # Since each fragment's last meeting, and the steps that were made then.
        self._samples = _state(zeros, tf.float64, "samples")
        self._met = _state(zeros, tf.int64, "met")
        # The fragment whose meeting has not ended, and whether its anchors have moved.
        self._under_way = _state(_NONE, tf.int64, "under_way")
        self._has_moved = _state(False, tf.bool, "has_moved")

    @property
    def has_own_state(self) -> bool:
        """What is under way is each peer's own."""
        return super().has_own_state or self.fragments.overlap > 0

    @functools.cached_property
    def state(self) -> tf.Module:
        """As that of `Anchored`, with how far the fragments are."""
        state = super().state
        state.met = self._met.get()
        state.under_way = self._under_way.get()
        state.has_moved = self._has_moved.get()
        return state

    def before_training(self) -> None:
        """Drops what an earlier training has begun and not ended."""
        super().before_training()
        self._under_way.get().assign(_NONE)
        if "ordinal" in vars(self) and self.fragments.overlap:
            begun.drop(f"{self.name}/outer")

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the anchors, and deals the variables to fragments."""
        is_new = not self._dealt
        super().build(variables)
        if self.island is not None:
            self.island.check()
            if not peer.is_single_process():
                self.island.group()  # here, where all peers are
        if is_new:
            self._dealt = self.fragments.dealt([generations.native(v) for v in variables])

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns the means of the island, or this peer's own."""
        if self.island is None or peer.is_single_process():
            return super().gradients(gradients, variables)
        with groups.among(self.island.group()):
            return synchronous_means(
                gradients, variables, name=f"{self.name}/island", sums_rows=self.sums_rows
            )

    def after_step(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Counts the step. Meetings end and begin whose time has come."""
        schedule, fragments = self.schedule, self.fragments
        steps = schedule.steps.read_value() + 1
        of_round = steps - schedule.steps_at_meeting.read_value()
        samples = self._samples.get().read_value() + sample_weights.samples_of_step()
        under_way = self._under_way.get().read_value()
        parts = self._parts_of(variables)
        meets = [tf.equal(of_round, fragments.begin(number)) for number in range(len(parts))]
        for number, part in enumerate(parts):
            ends = tf.equal(of_round, fragments.end(number)) & tf.equal(under_way, number)
            if fragments.overlap:
                assign_when(ends, part, functools.partial(self._ended, number, part))
        for number, part in enumerate(parts):
            if fragments.overlap:
                begin = functools.partial(self._begin, number, part, samples[number], steps)
                tf.cond(meets[number], begin, lambda: tf.constant(False))
            else:
                meet = functools.partial(self._meet, number, part, samples[number])
                assign_when(meets[number], part, meet)
        met = tf.where(tf.stack(meets), steps, self._met.get())
        left = tf.where(tf.stack(meets), tf.zeros_like(samples), samples)
        counters = [schedule.steps, schedule.steps_at_meeting, self._met.get(), self._samples.get()]
        return assign(counters, [steps, met[0], met, left])

    def share_state(self) -> None:
        """Shares the codec's. Moves what is under way."""
        super().share_state()
        number = int(self._under_way.get())
        if number != _NONE and not self._has_moved.get():
            with groups.among(self.group):
                self._move_by_mean(number, self._parts_of(self._trained.get().values())[number])
            self._has_moved.get().assign(True)

    def finish(self) -> None:
        """Ends what is under way. Each fragment that had steps since its meeting meets again."""
        steps, under_way = int(self.schedule.steps), int(self._under_way.get())
        samples = self._samples.get().read_value()
        if under_way == _NONE and (self._met.get().numpy() == steps).all():
            return
        with groups.among(self.group):
            for number, part in enumerate(self._parts_of(self._trained.get().values())):
                if number == under_way:
                    assign(part, self._ended(number, part))
                if int(self._met.get()[number]) != steps:
                    assign(part, self._meet(number, part, samples[number]))
                elif number == under_way:
                    assign(part, self._values_of(part))
        counters = [self.schedule.steps_at_meeting, self._met.get(), self._samples.get()]
        assign(counters, [steps, tf.fill(samples.shape, tf.cast(steps, tf.int64)), 0 * samples])

    def _parts_of(self, variables: Sequence[Any]) -> list[list[Any]]:
        """The variables of each fragment, of these."""
        given = {variable.ref() for variable in variables}
        return [[v for v in part if v.ref() in given] for part in self._dealt]

    def _name_of(self, number: int) -> str:
        return "outer" if self.fragments.count == 1 else f"outer/{number}"

    def _meet(self, number: int, part: Sequence[Any], samples: Any) -> list[Any]:
        """A meeting that ends at once. Returns the new values."""
        return self.meet(part, samples, self._name_of(number))

    def _begin(self, number: int, part: Sequence[Any], samples: Any, steps: Any) -> Any:
        moved, is_alone = self.moved(part), peer.is_single_process()
        if is_alone:
            self.move(self._anchors_of(part), moved)
        elif part:
            begun.begin_agreed_all_reduce(
                with_counts(moved, samples),
                op="mean",
                name=f"{self.name}/{self._name_of(number)}",
                step=steps,
                agree=[members.identity(part)],
            )
        self._under_way.get().assign(number)
        self._has_moved.get().assign(is_alone)
        return tf.constant(True)

    def _ended(self, number: int, part: Sequence[Any]) -> list[Any]:
        """Ends a meeting that was begun. Returns the new values."""

        def move() -> Any:
            self._move_by_mean(number, part)
            return tf.constant(True)

        # A process that has no others has moved already, unless it has lost them since the meeting.
        if tf.executing_eagerly() or not peer.is_single_process():
            tf.cond(self._has_moved.get().read_value(), lambda: tf.constant(False), move)
        self._under_way.get().assign(_NONE)
        return [self._merged(v, a) for v, a in zip(part, self._anchors_of(part), strict=True)]

    def _merged(self, variable: Any, anchor: Any) -> Any:
        value = self.merge * widened(variable) + (1 - self.merge) * anchor
        return tf.cast(value, variable.dtype.base_dtype)

    def _move_by_mean(self, number: int, part: Sequence[Any]) -> None:
        """Waits for the mean that was begun, and moves the anchors."""
        if not part:
            return
        anchors = self._anchors_of(part)
        name = f"{self.name}/{self._name_of(number)}"
        sums = begun.end_group_all_reduce(specs_with_counts(anchors), name=name)
        self.move(anchors, ratios(sums, [tf.zeros_like(anchor) for anchor in anchors]))


def _state(value: Any, dtype: Any, name: str) -> graph_state.State:
    return graph_state.State(lambda: graph_state.variable(value, dtype, f"meetings/{name}"))
