"""The meetings of peers that train apart between them, as the data and the callbacks see them."""

from __future__ import annotations

from collections.abc import Callable
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
    """When the peers ask each other for more batches: at the meetings, and where epochs end.

    They ask before each batch, if it is not known that each batch is a step: with several
    optimizers, or a train step of the program's own. They do so, too, if it is not known where
    epochs end: Keras 2 ends later epochs where the first one has ended, without asking for more.
    """
    schedules = schedules_of(fit)
    is_of_keras = not generations.has_own_train_step(fit.model)
    if fit.meets is not Meets.SOMETIMES or len(schedules) != 1 or not is_of_keras:
        return EACH_BATCH
    [schedule] = schedules
    first: Callable[[], tuple[int, int]] = lambda: _now(schedule)  # noqa: E731
    if fit.steps_per_epoch is None:
        infers_length = generations.package_of(fit.model).generation == 2
        return EACH_BATCH if infers_length else Rounds(first, schedule.next_after)
    if fit.steps_per_epoch % generations.steps_per_execution(fit.model):
        return EACH_BATCH
    return Rounds(first, schedule.next_after, fit.steps_per_epoch)


def _now(schedule: Schedule) -> tuple[int, int]:
    meeting: Any = schedule.steps_at_meeting
    return int(schedule.steps), int(schedule.next_after(int(meeting)))
