"""Ray and Spark on this machine, with four slots, as the tests of engines need them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kungfu_tf as kf
from tests import waiting

ROOT = Path(__file__).parents[3]
CLUSTER = ROOT / "tests" / "python" / "cluster"
PROGRAM, SHARED = CLUSTER / "programs" / "started.py", CLUSTER / "shared"
SLOTS = 4
_ENVIRON = {
    "CUDA_VISIBLE_DEVICES": "0,1",  # which a machine need not have
    "KUNGFU_COLLECTIVE_TIMEOUT": "90",
    "PYSPARK_PYTHON": sys.executable,
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


class Engine(NamedTuple):
    """A session.

    Attributes:
        name: The name of the engine.
        run: Its `run(fn, np, **options)`.
        trials: Its `trials(fn, grid, **options)`.
        is_idle: Tells whether it has no work.
        table: Makes data of the engine of columns, NumPy arrays.
    """

    name: str
    run: Callable[..., list[Any]]
    trials: Callable[..., list[Any]]
    is_idle: Callable[[], bool]
    table: Callable[[Mapping[str, Any]], Any]


@contextlib.contextmanager
def ray_session() -> Iterator[Engine]:
    with _installed("ray"):
        import ray

        ray.init(num_cpus=SLOTS, num_gpus=2, include_dashboard=False)

        def is_idle() -> bool:
            groups = ray.util.placement_group_table().values()
            is_free = ray.available_resources().get("CPU") == SLOTS
            return is_free and all(group["state"] == "REMOVED" for group in groups)

        def table(columns: Mapping[str, Any]) -> Any:
            rows = zip(*columns.values(), strict=True)
            return ray.data.from_items([dict(zip(columns, row, strict=True)) for row in rows])

        try:
            yield Engine("ray", kf.ray.run, kf.ray.trials, is_idle, table)
        finally:
            ray.shutdown()


@contextlib.contextmanager
def ray_nodes() -> Iterator[tuple[str, str]]:
    """A Ray of two nodes with a CPU each: its address, and the id of the node that may be drained.

    They are processes of this machine.
    """
    with _installed("ray"):
        import ray
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        try:
            other = cluster.add_node(num_cpus=1)
            ray.init(address=cluster.address)
            cluster.wait_for_nodes()
            yield cluster.gcs_address, other.node_id
        finally:
            ray.shutdown()
            cluster.shutdown()


@contextlib.contextmanager
def spark_session() -> Iterator[Engine]:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs Java: openjdk-17-jre-headless of Debian")
    with _installed("pyspark"):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(f"local[{SLOTS}]")
        session = builder.config("spark.ui.enabled", "false").getOrCreate()
        tracker = session.sparkContext.statusTracker()

        def run(fn: Callable[..., Any], np: int | None, **options: Any) -> list[Any]:
            return kf.spark.run(fn, num_proc=np, **options)

        def is_idle() -> bool:
            return not tracker.getActiveJobsIds()

        def table(columns: Mapping[str, Any]) -> Any:
            rows = zip(*(column.tolist() for column in columns.values()), strict=True)
            return session.createDataFrame(rows, list(columns))

        try:
            yield Engine("spark", run, kf.spark.trials, is_idle, table)
        finally:
            session.stop()


@contextlib.contextmanager
def _installed(package: str) -> Iterator[None]:
    """Sets the variables for an engine, if it is installed."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}: make engines")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        for name, text in _ENVIRON.items():
            patch.setenv(name, text)
        yield


def written(folder: Path) -> list[str]:
    """What two peers have written."""
    return [(folder / str(rank)).read_text() for rank in range(2)]


def trained_by_kungfu_run(folder: Path) -> list[str]:
    """What two peers of kungfu-run write."""
    folder.mkdir()
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-q", "-np", "2"]
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{SHARED}"}
    program = [sys.executable, str(PROGRAM), str(folder)]
    subprocess.run([*launcher, *program], check=True, timeout=200, env=environ)
    return written(folder)


def wait_until_nothing_is_left(engine: Engine, mark: Mapping[str, str]) -> None:
    """Waits until the engine has no work, and no process with the variable of `mark` lives."""
    ((name, text),) = mark.items()
    marked = f"{name}={text}".encode()

    def left() -> list[str]:
        return [process.name for process in Path("/proc").glob("[0-9]*") if _has(process, marked)]

    waiting.until(lambda: engine.is_idle() and not left(), lambda: f"ended: {left()}")


def _has(process: Path, variable: bytes) -> bool:
    try:
        return variable in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
