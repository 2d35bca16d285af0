"""When a stage of Spark has started, and how it is cancelled."""

from __future__ import annotations

import threading
from typing import NamedTuple

import pytest

import kungfu_tf as kf

pytestmark = pytest.mark.exhaustive
status = pytest.importorskip("pyspark.status", reason="needs pyspark: make engines")


class Tracker(NamedTuple):
    """A tracker of one job with one stage of four tasks."""

    active: int
    completed: int

    def getJobIdsForGroup(self, group):  # noqa: N802
        return [1] if group == "ours" else []

    def getJobInfo(self, job):  # noqa: N802
        return status.SparkJobInfo(job, [7], "RUNNING")

    def getStageInfo(self, stage):  # noqa: N802
        return status.SparkStageInfo(stage, 0, "stage", 4, self.active, self.completed, 0)


@pytest.mark.parametrize(
    ("active", "completed", "expected"), [(0, 0, False), (4, 0, True), (3, 1, True), (1, 0, False)]
)
def test_a_task_that_has_ended_had_started(active: int, completed: int, expected: bool) -> None:
    from kungfu_tf.engines.spark_stage import has_started

    assert has_started(Tracker(active, completed), "ours", 4) == expected
    assert not has_started(Tracker(active, completed), "others'", 4)


class Context:
    """A cluster of Spark, whose job ends by the third request to cancel it, as a late one does.

    Attributes:
        ends: Whether the job ends at all.
        requests: How often it was cancelled.
    """

    def __init__(self, *, ends: bool) -> None:
        self.ends = ends
        self.master = "spark://host"
        self.requests = 0
        self._is_over = threading.Event()

    def statusTracker(self):  # noqa: N802
        return Tracker(0, 0)

    def setJobGroup(self, group, description):  # noqa: N802
        pass

    def cancelJobGroup(self, group):  # noqa: N802
        self.requests += 1
        if self.requests == 3 and self.ends:
            self.end()

    def end(self):
        self._is_over.set()

    def collect(self):
        self._is_over.wait()
        return []


@pytest.mark.parametrize("ends", [True, False])
def test_a_job_is_cancelled_until_it_ends(
    ends: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kungfu_tf.engines import spark_stage

    monkeypatch.setattr(spark_stage, "InheritableThread", threading.Thread)
    monkeypatch.setattr(spark_stage, "_LOOKS", 0.01)
    monkeypatch.setattr(spark_stage, "_slots", lambda context: 4)
    monkeypatch.setattr(spark_stage, "_CANCELLING", 600 if ends else 0.1)
    context = Context(ends=ends)
    with pytest.raises(kf.errors.DeadlineExceededError, match="had not started"):
        spark_stage.collect(context, context, 4, start_timeout=0.05, timeout=600)
    context.end()
    assert ("the job still runs" in capsys.readouterr().err) == (not ends)
    assert context.requests == 3 if ends else context.requests > 1


@pytest.mark.parametrize(("at_once", "said"), [(1, "a process needs a slot"), (4, "4 processes")])
def test_slots_must_come_in_time(at_once: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kungfu_tf.engines import spark_stage

    monkeypatch.setattr(spark_stage, "_LOOKS", 0.01)
    monkeypatch.setattr(spark_stage, "_slots", lambda context: 0)
    context = Context(ends=True)
    with pytest.raises(kf.errors.ResourceExhaustedError, match=f"^spark: {said}"):
        spark_stage.collect(context, context, at_once, start_timeout=0, timeout=600)
