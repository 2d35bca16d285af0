"""What `kungfu-run -v` tells of the strategy, by which the peers' data travel."""

import re
import subprocess
import sys

import pytest

MEET = "from kungfu_tf import peer; peer.barrier()"
# The last peer was given one of its own.
DISAGREE = """
import os
if os.environ["KUNGFU_PEERS"].endswith(os.environ["KUNGFU_SELF"]):
    os.environ["KUNGFU_STRATEGY"] = "STAR"
"""


def told(np: int, *words: str, program: str = MEET) -> str:
    """All that is said, by the launcher and by the peers."""
    command = [sys.executable, "-m", "kungfu_tf.launcher", *words, "-np", str(np)]
    ended = subprocess.run(
        [*command, sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout + ended.stderr


def strategy_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if " strategy " in line]


def test_what_auto_means_is_one_line_of_rank_0() -> None:
    text = told(3, "-v")
    (line,) = strategy_lines(text)
    assert re.match(r"\[0\] .* strategy AUTO for .*: all-reduces go .*along \w+", line), line
    assert "messages within a host take " in text
    assert "between hosts" not in text


@pytest.mark.parametrize("np", [2, 3])
def test_a_name_is_all_that_it_means(np: int) -> None:
    text = told(np, "-v", "-strategy", "RING")
    (line,) = strategy_lines(text)
    assert re.search(r" strategy RING for .*: all-reduces go along RING$", line), line
    assert "messages " not in text


def test_who_was_given_another_one_says_so() -> None:
    (line,) = strategy_lines(told(2, "-strategy", "RING", program=DISAGREE + MEET))
    expected = (
        "strategy STAR of rank 1 is not used, for rank 0 was given another one: "
        "all-reduces go along RING"
    )
    assert line.endswith(expected), line
