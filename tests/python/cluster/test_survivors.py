"""Peers that are lost in the middle of `fit`, and the others, which go on or fail as a whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import programs, ways

PROGRAM = programs.FOLDER / "survivors.py"
SURVIVE = ("-on-failure", "survive")

# Those of a job follow each other. In the three jobs of a row each phase is that of rank 0, and of
# others: in the first place of the last peer and of one between.
ROWS = [
    ("backward", "epoch end", "validation"),
    ("fit begin", "step begin", "step end"),
    ("traced", "forward", "delivered"),
    ("epoch begin", "applied in part", "fit end"),
    ("metrics", "validation end", "forward"),
]
AMID_AN_EXCHANGE = ("bucket", "complete", "voted")
WITH_MOMENTS = ("S-SGD", "SMA", "noise scale", "variance")
ORDERS = [(3, 0, 1), (0, 3, 1), (1, 0, 3)]
DAILY = {
    ("S-SGD", "direct", ROWS[0], ORDERS[0]),
    ("S-SGD", "tcp", ROWS[0], ORDERS[0]),
    ("S-SGD", "unix", AMID_AN_EXCHANGE, ORDERS[0]),
    ("SMA", "unix", ROWS[0], ORDERS[0]),
    ("DiLoCo", "unix", ROWS[0], ORDERS[0]),
    ("AdaptiveSGD", "unix", ROWS[2], ORDERS[0]),
    ("pairs", "tcp", ROWS[0], ORDERS[0]),
}
DAILY_PAIR = ("S-SGD", "unix", (1, 0))
METHODS = (
    "S-SGD",
    "SMA",
    "LocalSGD",
    "DiLoCo",
    "Streaming",
    "AdaptiveSGD",
    "noise scale",
    "variance",
    "pairs",
)
JOBS = [
    pytest.param(
        *(method, way, row, order),
        marks=[] if (method, way, row, order) in DAILY else pytest.mark.exhaustive,
        id=f"{method}, {way}, {', '.join(row)}, {order}",
    )
    for method in METHODS
    for way in ways.ALL
    for row in (*ROWS, *([AMID_AN_EXCHANGE] if method in WITH_MOMENTS else []))
    for order in ORDERS
]


def survived(method: str, way: str, faults: list[tuple[int, str]], folder: Path) -> str:
    """What was printed by a job of four that has lost these peers, in these phases."""
    arguments = (folder, method, *(f"{who}:{phase}" for who, phase in faults))
    out, err = ways.run(way, PROGRAM, *arguments, flags=SURVIVE)
    for left, (who, phase) in zip((3, 2, 1), faults, strict=False):
        assert len(re.findall(rf" injected .*who={who}, phase='{phase}'", out)) == 1, out
        assert out.count(f"survived {phase}") == left, out + err
        assert re.search(rf"rank {who} \(.*\) was lost: killed by SIGKILL", err)
    assert err.count("went on") == len(faults), err
    return out + err


@pytest.mark.lost_peers
@pytest.mark.parametrize(("method", "way", "row", "order"), JOBS)
def test_the_others_repeat_the_step_and_go_on(
    method: str, way: str, row: tuple[str, ...], order: tuple[int, ...], tmp_path: Path
) -> None:
    said = survived(method, way, list(zip(order, row, strict=True)), tmp_path)
    if (method, way, row, order) in DAILY:
        assert "fit: 1 of 4 peers are gone in epoch 1, and 3 go on" in said
        # Rank 1 prints in place of rank 0.
        assert re.search(r"^\[1\] Epoch 2 - .*mae: ", said, re.MULTILINE), said


@pytest.mark.lost_peers
@pytest.mark.parametrize(
    ("method", "way", "pair"),
    [
        pytest.param(
            *(method, way, pair),
            marks=[] if (method, way, pair) == DAILY_PAIR else pytest.mark.exhaustive,
            id=f"{method}, {way}, {pair}",
        )
        for method in ("S-SGD", "SMA")
        for way in ways.ALL
        for pair in [(1, 0), (0, 3), (3, 1)]
    ],
)
def test_another_is_lost_while_they_go_over(
    method: str, way: str, pair: tuple[int, int], tmp_path: Path
) -> None:
    first, second = pair
    fault = f"{first},{second}:going over"
    out, err = ways.run(way, PROGRAM, tmp_path, method, fault, flags=SURVIVE)
    for injected in ("injected before", "injected"):
        assert out.count(f" {injected} Fault(who={second}, phase='going over'") == 1, out + err
    for who in pair:
        assert re.search(rf"rank {who} \(.*\) was lost: killed by SIGKILL", err), err
    assert out.count("survived going over") == 2, out + err


@pytest.mark.parametrize(
    "way", ["tcp", *(pytest.param(way, marks=pytest.mark.exhaustive) for way in ("unix", "direct"))]
)
def test_connections_that_are_cut_are_made_anew(way: str, tmp_path: Path) -> None:
    faults = [(0, "backward"), (3, "delivered"), (1, "epoch end")]
    arguments = (tmp_path, "S-SGD", *(f"{who}:{phase}:cut" for who, phase in faults))
    out, err = ways.run(way, PROGRAM, *arguments, flags=SURVIVE)
    assert len(re.findall(r"cut [1-9]", out)) == 3, out + err
    assert [out.count(f"survived {phase}") for _, phase in faults] == [4, 4, 4], out + err
    assert err.count("connections between peers broke") == 3, out + err
    assert err.count("4 peers went on") == 3, out + err


def test_rank_0_dies_while_it_writes_a_checkpoint(tmp_path: Path) -> None:
    survived("S-SGD", "direct", [(0, "checkpoint")], tmp_path)


@pytest.mark.parametrize(
    ("policy", "code", "whole"), [("stop", 128 + 9, {"0", "18"}), ("survive", 0, {"18"})]
)
def test_no_update_is_torn(policy: str, code: int, whole: set[str]) -> None:
    done = programs.run(PROGRAM, "torn", flags=["-np", "3", "-on-failure", policy], code=code)
    assert "[1] injected" in done.stdout
    changed = re.findall(r"changed (\d+) of (\d+) in step 2", done.stdout)
    assert [variables for _, variables in changed] == ["18", "18"], done.stdout + done.stderr
    assert {number for number, _ in changed} <= whole, done.stdout + done.stderr


def test_the_last_one_begins_the_rest_of_a_step_when_it_is_alone() -> None:
    done = programs.run(PROGRAM, "last", flags=["-np", "2", *SURVIVE])
    assert "[1] injected" in done.stdout
    assert "[0] without it from step 2\n" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("what", "flags"),
    [
        *((what, ["-np", "2"]) for what in ("sum", "weights", "center", "rates", "noise")),
        ("rates", ["-np", "2", "-w"]),
        ("samples", ["-np", "3"]),
        ("warm-up", ["-np", "3", "-w"]),
    ],
)
def test_all_survivors_count_the_same_number_of_peers(
    what: str, flags: list[str], tmp_path: Path
) -> None:
    program = programs.FOLDER / "numbers_of_peers.py"
    done = programs.run(program, tmp_path, what, flags=[*flags, *SURVIVE])
    left = int(flags[1]) - 1
    assert done.stdout.count("it counts") == left, done.stdout + done.stderr
