"""When a stage of Spark has started."""

from __future__ import annotations

from typing import NamedTuple

import pytest

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
