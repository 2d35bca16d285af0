"""When a stage of Spark has started, and what its failure says."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.exhaustive
if importlib.util.find_spec("pyspark") is None:
    pytest.skip("needs pyspark: make engines", allow_module_level=True)

from pyspark.status import SparkJobInfo, SparkStageInfo

from kungfu_tf.engines.spark_stage import has_started


class Tracker(NamedTuple):
    """A tracker of one job with one stage of four tasks."""

    active: int
    completed: int

    def getJobIdsForGroup(self, group):  # noqa: N802
        return [1] if group == "ours" else []

    def getJobInfo(self, job):  # noqa: N802
        return SparkJobInfo(job, [7], "RUNNING")

    def getStageInfo(self, stage):  # noqa: N802
        return SparkStageInfo(stage, 0, "stage", 4, self.active, self.completed, 0)


@pytest.mark.parametrize(
    ("active", "completed", "expected"), [(0, 0, False), (4, 0, True), (3, 1, True), (1, 0, False)]
)
def test_a_task_that_has_ended_had_started(active: int, completed: int, expected: bool) -> None:
    assert has_started(Tracker(active, completed), "ours", 4) == expected
    assert not has_started(Tracker(active, completed), "others'", 4)
