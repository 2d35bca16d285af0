"""The meetings of peers that train apart between them, as the data and the callbacks see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kungfu_tf.context.meets import Meets
from kungfu_tf.data.rounds import EACH_BATCH, Rounds
from kungfu_tf.upstream import generations

if TYPE_CHECKING:
    from kungfu_tf.exchange.schedule import Schedule
    from kungfu_tf.keras.fit.call import Fit


def schedules_of(fit: Fit) -> list[Schedule]:
    """The schedules of a call whose peers meet sometimes."""
    return [algorithm.schedule for algorithm in generations.algorithms_of_model(fit.model)]


def last_meetings(fit: Fit) -> list[int]:
    """For each schedule, the steps that were made at the last meeting."""
    return [int(schedule.steps_at_meeting) for schedule in schedules_of(fit)]


def rounds_of(fit: Fit) -> Rounds:
    """When the peers ask each other for more batches: at the meetings, if each batch is a step.

    That is known of Keras' train step and one optimizer.
    """
    if fit.meets is not Meets.SOMETIMES or generations.has_own_train_step(fit.model):
        return EACH_BATCH
    schedules = schedules_of(fit)
    if len(schedules) != 1:
        return EACH_BATCH
    [schedule] = schedules
    return Rounds(lambda: _now(schedule), schedule.next_after)


def _now(schedule: Schedule) -> tuple[int, int]:
    meeting: Any = schedule.steps_at_meeting
    return int(schedule.steps), int(schedule.next_after(int(meeting)))
