"""What the file of a timeline tells of a peer's operations."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
import tensorflow as tf

import kungfu_tf as kf

JOBS = [{"np": 2}, {"np": 1, "id": "alone"}]
NEEDS_KERAS = False


def read(path: Path, name: str) -> list[tuple[dict, dict]]:
    """The begin and the end of each operation of this name."""
    first, *events = json.loads(path.read_text())
    assert first["ph"] == "M" and first["args"]["name"].startswith(f"rank {kf.rank()}, ")
    assert {event["pid"] for event in events} == {kf.rank()}
    ours = [event for event in events if event["name"] == name]
    assert [event["ph"] for event in ours] == ["b", "e"] * (len(ours) // 2)
    pairs = list(zip(ours[::2], ours[1::2], strict=True))
    assert all(begin["id"] == end["id"] for begin, end in pairs)
    return pairs


def case_operations():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        kf.start_timeline(path)
        for _ in range(3):
            kf.ops.all_reduce(tf.ones([5]), name="of_five")
        kf.stop_timeline()
        kf.ops.all_reduce(tf.ones([5]), name="of_five")  # is not recorded any more
        pairs = read(path, "of_five")
        assert [end["args"] for _, end in pairs] == [{"bytes": 20, "ok": True}] * 3
        times = [event["ts"] for pair in pairs for event in pair]
        assert times == sorted(times)


def case_an_operation_that_fails():
    if kf.size() == 1:
        return  # nobody differs
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        kf.start_timeline(path)
        with pytest.raises(tf.errors.InvalidArgumentError):
            kf.ops.all_reduce(tf.ones([1 + kf.rank()]), name="of_different_shapes")
        kf.stop_timeline()
        assert [end["args"]["ok"] for _, end in read(path, "of_different_shapes")] == [False]


def case_another_start_ends_the_first():
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("first.json", "second.json")]
        for path in paths:
            kf.start_timeline(path)
            kf.ops.all_reduce(tf.ones([1]), name=path.stem)
        kf.stop_timeline()
        for path in paths:
            assert len(read(path, path.stem)) == 1
            assert len(json.loads(path.read_text())) >= 3


def case_errors():
    with pytest.raises(kf.errors.FailedPreconditionError, match="there is no timeline"):
        kf.stop_timeline()
    with pytest.raises(kf.errors.KungfuError, match=r"timeline /nowhere/trace.json: No such file"):
        kf.start_timeline("/nowhere/trace.json")
