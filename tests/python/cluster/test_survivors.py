"""Peers that are lost in the middle of `fit`, and the others, which go on or fail as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import programs, warm
from harness.launch import environment

PROGRAM = programs.FOLDER / "survivors.py"
# The ways of the buckets: in memory that the peers share; by messages.
WAYS = {
    "direct": {"KUNGFU_DIRECT_BYTES": "1"},
    "unix": {"KUNGFU_TRANSPORT": "unix"},
    "tcp": {"KUNGFU_TRANSPORT": "tcp"},
}


TWO_HOSTS = "two hosts with HIERARCHY"


# Those of a job follow each other. In the three jobs of a row each phase is that of rank 0, and of
# others: in the first place of the last peer and of one between.
ROWS = [
    ("backward", "epoch end", "validation"),
    ("fit begin", "step begin", "step end"),
    ("traced", "forward", "delivered"),
    ("epoch begin", "applied in part", "fit end"),
    ("metrics", "validation end", "forward"),
]
ORDERS = [(3, 0, 1), (0, 3, 1), (1, 0, 3)]
DAILY = {
    ("S-SGD", "direct", ROWS[0], ORDERS[0]),
    ("S-SGD", "tcp", ROWS[0], ORDERS[0]),
    ("SMA", "unix", ROWS[0], ORDERS[0]),
    ("DiLoCo", "unix", ROWS[0], ORDERS[0]),
    ("AdaptiveSGD", "unix", ROWS[2], ORDERS[0]),
}
METHODS = (
    "S-SGD",
    "SMA",
    "LocalSGD",
    "DiLoCo",
    "Streaming",
    "AdaptiveSGD",
    "noise scale",
    "variance",
)
JOBS = [
    pytest.param(
        *(method, way, row, order),
        marks=[] if (method, way, row, order) in DAILY else pytest.mark.exhaustive,
        id=f"{method}, {way}, {', '.join(row)}, {order}",
    )
    for method in METHODS
    for way in (*WAYS, TWO_HOSTS)
    for row in ROWS
    for order in ORDERS
]


def survived(method: str, way: str, faults: list[tuple[int, str]], folder: Path) -> str:
    """What was printed by a job of four that has lost these peers, in these phases."""
    arguments = (folder, method, *(f"{who}:{phase}" for who, phase in faults))
    flags = ["-np", "4", "-on-failure", "survive"]
    if way == TWO_HOSTS:
        flags += ["-strategy", "HIERARCHY"]
        done = programs.run_on_two_hosts(PROGRAM, *arguments, flags=flags)
    else:
        done = [programs.run(PROGRAM, *arguments, flags=flags, env=WAYS[way])]
    out, err = "".join(one.stdout for one in done), "".join(one.stderr for one in done)
    for left, (who, phase) in zip((3, 2, 1), faults, strict=False):
        assert len(re.findall(rf" injected .*who={who}, phase='{phase}'", out)) == 1, out
        assert out.count(f"survived {phase}") == left, out + err
        assert re.search(rf"rank {who} \(.*\) was lost: killed by SIGKILL", err)
    assert err.count("went on") == len(faults), err
    return out + err


@pytest.mark.parametrize(("method", "way", "row", "order"), JOBS)
def test_the_others_repeat_the_step_and_go_on(
    method: str, way: str, row: tuple[str, ...], order: tuple[int, ...], tmp_path: Path
) -> None:
    said = survived(method, way, list(zip(order, row, strict=True)), tmp_path)
    if (method, way, row, order) in DAILY:
        assert "fit: 1 of 4 peers are gone in epoch 1, and 3 go on" in said
        # Rank 1 prints in place of rank 0.
        assert re.search(r"^\[1\] Epoch 2 - .*mae: ", said, re.MULTILINE), said


@pytest.mark.parametrize(
    "way", ["tcp", *(pytest.param(way, marks=pytest.mark.exhaustive) for way in ("unix", "direct"))]
)
def test_connections_that_are_cut_are_made_anew(way: str, tmp_path: Path) -> None:
    faults = [(0, "backward"), (3, "delivered"), (1, "epoch end")]
    arguments = (tmp_path, "S-SGD", *(f"{who}:{phase}:cut" for who, phase in faults))
    flags = ["-np", "4", "-on-failure", "survive"]
    done = programs.run(PROGRAM, *arguments, flags=flags, env=WAYS[way])
    said = done.stdout + done.stderr
    assert len(re.findall(r"cut [1-9]", done.stdout)) == 3, said
    assert [done.stdout.count(f"survived {phase}") for _, phase in faults] == [4, 4, 4], said
    assert done.stderr.count("connections between peers broke") == 3, said
    assert done.stderr.count("4 peers went on") == 3, said


def test_rank_0_dies_while_it_writes_a_checkpoint(tmp_path: Path) -> None:
    survived("S-SGD", "direct", [(0, "checkpoint")], tmp_path)


def test_where_the_job_ends_no_update_is_torn() -> None:
    env = environment()
    command = [sys.executable, "-m", "kungfu_tf.launcher", "-np", "3", *warm.python(env)]
    done = subprocess.run(
        [*command, str(PROGRAM), "torn"], env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 128 + 9, done.stdout + done.stderr
    assert "[1] injected" in done.stdout
    changed = re.findall(r"changed (\d) of 8 in step 2", done.stdout)
    assert len(changed) == 2 and set(changed) <= {"0", "8"}, done.stdout + done.stderr
