"""A stage of Spark, which either starts and ends in time or is cancelled."""

from __future__ import annotations

import re
import secrets
import sys
import time
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread, SparkContext, StatusTracker

from kungfu_tf import errors
from kungfu_tf.engines import spark_failure
from kungfu_tf.engines.orders import by_host
from kungfu_tf.function_launch.results import Child

_LOOKS = 0.2  # seconds between two looks at the stage
_CANCELLING = 60.0  # seconds that Spark has for it
_SHOWN = 8  # lines of a message of Spark

# The line that says why a task is lost.
_LOST = re.compile(r"ResultTask\((?P<stage>\d+), (?P<task>\d+)\).*?\n(?P<reason>[^\n]+)")


def collect(
    context: SparkContext, tasks: Any, at_once: int, *, start_timeout: float, timeout: float
) -> list[Child]:
    """Runs tasks to their ends.

    Args:
        context: Spark.
        tasks: An RDD of children.
        at_once: How many of its tasks run when it has started.
        start_timeout: How many seconds it may take to start, with the wait for slots.
        timeout: How many seconds it may take then.

    Raises:
        PeerFailedError: If one did not.
        ResourceExhaustedError: If the cluster does not have that many slots, soon or ever.
        DeadlineExceededError: If they do not start or end in time.
    """
    deadline = time.monotonic() + start_timeout
    _wait_for_slots(context, at_once, deadline)
    stage = _Stage(context, tasks, at_once)
    stage.start()
    try:
        stage.wait(deadline, start_timeout, timeout)
    finally:
        stage.cancel()
    return stage.result()


class _Stage:
    """Runs in a thread of its own, because Spark's calls have no deadlines."""

    def __init__(self, context: SparkContext, tasks: Any, at_once: int) -> None:
        self._context, self._tasks, self._at_once = context, tasks, at_once
        self._tracker = context.statusTracker()
        self._group = f"kungfu_tf-{secrets.token_hex(8)}"
        self._thread = InheritableThread(target=self._run, daemon=True)
        self._ended: list[Child] | BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def wait(self, deadline: float, start_timeout: float, timeout: float) -> None:
        """Returns when it has ended; until the deadline it must have started."""
        is_started = False
        while self._thread.is_alive():
            self._thread.join(_LOOKS)
            is_late = time.monotonic() > deadline and self._thread.is_alive()
            if not is_started:
                is_started = has_started(self._tracker, self._group, self._at_once)
                if is_started:
                    deadline = time.monotonic() + timeout
                elif is_late:
                    raise errors.DeadlineExceededError(
                        f"spark: after {start_timeout:g} s Spark had not started the "
                        "processes: others use its slots"
                    )
            elif is_late:
                raise errors.DeadlineExceededError(
                    f"spark: the timeout of {timeout:g} s is over, and not all processes had ended"
                )

    def cancel(self) -> None:
        """Ends the stage, if it still runs.

        It asks again and again, because Spark forgets a request for what it does not run yet.
        """
        deadline = time.monotonic() + _CANCELLING
        while self._thread.is_alive():
            if time.monotonic() > deadline:
                said = f"spark: {_CANCELLING:g} s after its cancelling the job still runs"
                print(f"kungfu_tf: {said}, group {self._group}", file=sys.stderr, flush=True)
                return
            self._context.cancelJobGroup(self._group)
            self._thread.join(_LOOKS)

    def result(self) -> list[Child]:
        if isinstance(self._ended, Py4JJavaError):
            raise self._failed(str(self._ended)) from None
        if isinstance(self._ended, BaseException):
            raise self._ended
        assert self._ended is not None
        return self._ended

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, "kungfu_tf")
            self._ended = self._tasks.collect()
        except BaseException as error:
            self._ended = error

    def _failed(self, message: str) -> errors.PeerFailedError:
        """The error for a stage that Spark has given up."""
        if (raised := spark_failure.unpacked(message)) is not None:
            return raised
        if lost := _LOST.search(message):
            hosts, task = self._hosts(int(lost["stage"])), int(lost["task"])
            rank, host = by_host(hosts).index(task), hosts[task]
            said = f"rank {rank} on {host}: lost: {lost['reason'].strip()}"
            return spark_failure.error_of(rank, host, errors.linked("engine-lost", said))
        lines = [line for line in message.splitlines() if not line.lstrip().startswith("at ")]
        said = "\n".join(["Spark has given up a task:", *lines[:_SHOWN]])
        return errors.PeerFailedError(errors.linked("engine-lost", said))

    def _hosts(self, stage: int) -> list[str]:
        """The host of each task."""
        tasks = self._context._jsc.sc().statusStore().taskList(stage, 0, self._at_once)
        listed = [tasks.apply(index) for index in range(tasks.size())]
        return [task.host() for task in sorted(listed, key=lambda task: task.index())]


def has_started(tracker: StatusTracker, group: str, at_once: int) -> bool:
    """Whether the last stage of a job has started so many tasks, some of which may have ended."""
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
    # The last stage of a job; those before it compute what it gets.
    stages = [tracker.getStageInfo(max(job.stageIds)) for job in jobs if job]
    return any(
        stage is not None and stage.numActiveTasks + stage.numCompletedTasks >= at_once
        for stage in stages
    )


def _wait_for_slots(context: SparkContext, at_once: int, deadline: float) -> None:
    """Returns when as many tasks as this can run at the same time."""
    while (slots := _slots(context)) < at_once:
        is_fixed = context.master.partition("[")[0] == "local"
        if is_fixed or time.monotonic() > deadline:
            message = f"spark: {_few(at_once, slots, context.master)}"
            raise errors.ResourceExhaustedError(errors.linked("engine-room", message))
        time.sleep(_LOOKS)


def _few(at_once: int, slots: int, master: str) -> str:
    if at_once == 1:
        return f"a process needs a slot, and Spark ({master}) has none: give Spark more cores"
    return (
        f"{at_once} processes need as many slots, and Spark ({master}) has {slots}: "
        "lower num_proc, or give Spark more cores"
    )


def _slots(context: SparkContext) -> int:
    spark = context._jsc.sc()
    profile = spark.resourceProfileManager().defaultResourceProfile()
    number: int = spark.maxNumConcurrentTasks(profile)
    return number
