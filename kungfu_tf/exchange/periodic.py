"""Methods whose peers train apart, and meet after some steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import errors, groups, ops, peer
from kungfu_tf.context import graph_state
from kungfu_tf.context.meets import Meets
from kungfu_tf.exchange.assignments import assign, assign_when
from kungfu_tf.exchange.channel import Channel
from kungfu_tf.exchange.codec import Codec
from kungfu_tf.exchange.counted_means import ratios, with_counts
from kungfu_tf.exchange.own_gradients import OwnGradients
from kungfu_tf.exchange.schedule import Schedule
from kungfu_tf.exchange.widening import widened
from kungfu_tf.ops import group, kernels, members
from kungfu_tf.replicas import sample_weights


class Periodic(OwnGradients):
    """Each peer trains a model of its own. After some steps the peers meet.

    They are equal then, unless a peer meets its neighbours only. A subclass says in `meet` what a
    meeting does. Steps count also if they make no update, so all peers count alike.

    Args:
        schedule: The meetings. In the first steps, which have a meeting each, the gradients keep
            the peers equal (`gradients`), so `meet` is not called.
        compression: How what is averaged at meetings travels; None: as it is. The object makes a
            codec of its own.
    """

    meets = Meets.SOMETIMES

    def __init__(self, schedule: Schedule, compression: Codec | None = None) -> None:
        self.schedule: Schedule = schedule
        self.compression = None if compression is None else compression.anew()
        self._trained = graph_state.State(dict)  # by references of the variables
        self._may_be_others = False
        self._samples = graph_state.State(
            lambda: graph_state.variable(0, tf.float64, "meetings/samples")
        )

    @property
    def title(self) -> str:
        """The name of its optimizer, for messages."""
        return f"{type(self).__name__}Optimizer"

    @functools.cached_property
    def state(self) -> tf.Module:
        """The counters of steps, and what the codec remembers."""
        state = tf.Module()
        if self.compression is not None:
            state.compression = self.compression.state
        state.steps = self.schedule.steps
        state.steps_at_meeting = self.schedule.steps_at_meeting
        return state

    @property
    def own_variables(self) -> Sequence[Any]:
        """The count of this peer's samples."""
        return [self._samples.get()]

    def meet(self, variables: Sequence[Any], samples: Any) -> list[Any]:
        """Returns the variables' new values. Every peer calls it.

        Args:
            variables: The variables, in which each peer's model differs.
            samples: How many samples this peer has had since the last meeting, a float64 scalar.
        """
        raise NotImplementedError

    def before_training(self) -> None:
        """Forgets this peer's samples of an earlier training. Other variables may be trained."""
        samples = self._samples.get()
        samples.assign(tf.zeros_like(samples))
        self._may_be_others = True

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the codec's state."""
        if self.compression is not None:
            self.compression.build(variables)

    def share_state(self) -> None:
        """Shares the codec's."""
        if self.compression is not None:
            self.compression.share(self.name)

    def before_step(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Checks that each step has the same variables: others would not be at each meeting."""
        trained = self._trained.get()
        mine = {v.ref(): v for v in variables}
        if trained and trained.keys() != mine.keys() and not self._may_be_others:
            raise errors.UnimplementedError(
                f"{self.title}: a step has other variables than the first one, "
                "and the peers meet with those of a step. Give all variables to each step, or wrap "
                "an optimizer for each part of the model"
            )
        trained.clear()
        trained.update(mine)
        self._may_be_others = False
        return []

    def after_step(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Counts the step. The peers meet if it is time."""
        schedule, counted = self.schedule, self._samples.get()
        meeting = schedule.steps_at_meeting.read_value()
        steps = schedule.steps.read_value() + 1
        samples = counted.read_value() + sample_weights.samples_of_step()
        is_meeting = tf.equal(steps, schedule.next_after(meeting))
        differ = is_meeting & (steps > schedule.start)
        changed = assign_when(differ, variables, lambda: self.meet(variables, samples))
        counters = [schedule.steps, schedule.steps_at_meeting, counted]
        left = tf.where(is_meeting, tf.zeros_like(samples), samples)
        new = [steps, tf.where(is_meeting, steps, meeting), left]
        with tf.control_dependencies(changed):  # in TF1 a meeting may still read them
            return [*changed, *assign(counters, new)]

    def finish(self) -> None:
        """The last meeting, if there were steps since the one before."""
        schedule, counted = self.schedule, self._samples.get()
        if int(schedule.steps) == int(schedule.steps_at_meeting):
            return
        trained = list(self._trained.get().values())
        with groups.among(self.group):
            assign(trained, self.meet(trained, counted.read_value()))
        schedule.steps_at_meeting.assign(schedule.steps)
        counted.assign(0)

    def mean(
        self, values: Sequence[Any], variables: Sequence[Any], samples: Any, name: str
    ) -> list[Any]:
        """Σ n·x / Σ n over the peers, where n are a peer's samples; of halves in float32.

        The sums travel together. With a codec the peers add up their samples before. Peers that are
        at different steps get an error.

        Args:
            values: One tensor for each variable.
            variables: The variables that they belong to.
            samples: As for `meet`.
            name: The name of the operation, after that of the algorithm.
        """
        wide = [widened(value) for value in values]
        if peer.is_single_process() or not wide:
            return wide
        if self.compression is not None:
            return self._decoded_mean(self.compression, wide, variables, samples, name)
        sent = with_counts(wide, samples)
        means = group.agreed_all_reduce(
            sent,
            op="mean",
            name=f"{self.name}/{name}",
            step=self.schedule.steps.read_value(),
            agree=[members.identity(variables)],
            exchange=kernels.Exchange.of(len(sent) - len(wide)),
        )
        return ratios(means, wide)

    def _decoded_mean(
        self,
        codec: Codec,
        values: Sequence[Any],
        variables: Sequence[Any],
        samples: Any,
        name: str,
    ) -> list[Any]:
        """`mean` by a codec, which takes numerators that are weighted already."""
        title = f"{self.name}/{name}"
        average = ops.all_reduce(samples, op="mean", name=f"{title}/samples")
        weight = tf.where(average > 0, samples / average, tf.ones_like(samples))
        agree = [members.identity(variables), codec.number]
        channel = Channel(title, agree=agree, step=self.schedule.steps.read_value())
        return codec.means(sample_weights.weighted(values, weight), variables, channel)
