"""The meetings of peers that train apart between them, as the data and the callbacks see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kungfu_tf.context.meets import Meets
from kungfu_tf.data.rounds import EACH_BATCH, Rounds
from kungfu_tf.keras.fit import agreement
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


def share_steps(fit: Fit) -> None:
    """Gives all peers the counters of rank 0, which alone may have restored a backup.

    They decide when the peers ask each other for batches, and so are needed before the first one.
    """
    if fit.meets is not Meets.SOMETIMES:
        return
    counters = [c for s in schedules_of(fit) for c in (s.steps, s.steps_at_meeting)]
    of_root = agreement.from_root([int(counter) for counter in counters])
    for counter, value in zip(counters, of_root, strict=True):
        counter.assign(value)


def rounds_of(fit: Fit) -> Rounds:
    """When the peers ask each other for more batches: at the meetings, and where epochs end.

    They ask before each batch

    - if it is not known that each batch is a step: with several optimizers, or a train step of the
      program's own;
    - if peers exchange something after other batches: because rank 0 saves there, or an execution
      has several steps;
    - if it is not known where epochs end: Keras 2 ends later ones where the first has ended.
    """
    schedules = schedules_of(fit)
    infers_length = generations.package_of(fit.model).generation == 2
    if (
        fit.meets is not Meets.SOMETIMES
        or len(schedules) != 1
        or generations.has_own_train_step(fit.model)
        or generations.steps_per_execution(fit.model) > 1
        or fit.saves_after_batches
        or (infers_length and fit.steps_per_epoch is None)
    ):
        return EACH_BATCH
    [schedule] = schedules
    epoch = {} if fit.steps_per_epoch is None else {"epoch": fit.steps_per_epoch}
    return Rounds(lambda: _now(schedule), schedule.next_after, **epoch)


def _now(schedule: Schedule) -> tuple[int, int]:
    meeting: Any = schedule.steps_at_meeting
    return int(schedule.steps), int(schedule.next_after(int(meeting)))
