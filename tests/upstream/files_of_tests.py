"""Runs files of tests, unedited, on several peers, as a table says."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import limited
import tables

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

_LINE = re.compile(r"^\[(\d+)\] TEST (\S+) (passed|failed|skipped) ?(.*)$", re.MULTILINE)
_NO_TEST = "Not a test"


def run(table: Path, checkout: Path, python: str, compat: str, only: str, limit: float) -> int:
    """Runs the files of the table whose lines contain a word.

    Args:
        table: It says what its columns are.
        checkout: Where the files are.
        python: The interpreter.
        compat: What stands in for the package: the value of `kungfu-run -compat`.
        only: The word.
        limit: The most seconds that a file may take.

    Returns:
        How many tests have failed.
    """
    failed = 0
    for line in tables.lines(table, only):
        file, peers, *others = (column.strip() for column in line.split("|"))
        if peers == "n/a":
            print(f"n/a   {file}  ({others[0]})", flush=True)
            continue
        cannot = dict.fromkeys(others[0].split(), others[1]) if others else {}
        for size in peers.split():
            results = _run(checkout / file, python, compat, size, limit)
            failed += _report(file, size, results, cannot)
    return failed


def environment() -> dict[str, str]:
    """Of the jobs."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "KUNGFU_COLLECTIVE_TIMEOUT": "60",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def _report(file: str, peers: str, results: dict[str, str], cannot: dict[str, str]) -> int:
    """Prints what has not passed, and returns how many have failed.

    Args:
        file: Of tests.
        peers: How many.
        results: By test.
        cannot: Why a test cannot pass with so many peers, by its name.
    """
    counts: Counter[str] = Counter()
    for name, result in results.items():
        if result in ("passed", "skipped"):
            counts[result] += 1
        elif name in cannot:
            counts["n/a"] += 1
            print(f"n/a   {name} on {peers} peers  ({cannot[name]})", flush=True)
        else:
            counts["failed"] += 1
            print(f"FAIL  {name} on {peers} peers  ({result})", flush=True)
    print(f"{file} on {peers} peers: {dict(counts)}", flush=True)
    return counts["failed"]


def _run(file: Path, python: str, compat: str, peers: str, limit: float) -> dict[str, str]:
    """For each test "passed", "skipped" (on all peers) or why it has failed.

    A file that has not ended as it should is among them.
    """
    folder = Path(tempfile.mkdtemp(prefix="kungfu-upstream-"))
    job = [python, "-m", "kungfu_tf.launcher", "-np", peers, "-compat", compat]
    program = [python, str(HERE / "in_peer.py"), str(file), "--timeout", "300"]
    ended = limited.run([[*job, *program]], folder, environment(), limit)
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for rank, name, outcome, why in _LINE.findall((folder / "output").read_text()):
        if _NO_TEST not in why:
            found[name][rank] = outcome if outcome != "failed" else why or "failed"
    results = {name: _common(outcomes, int(peers)) for name, outcomes in found.items()}
    return results | ({file.name: ended} if ended else {})


def _common(outcomes: dict[str, str], peers: int) -> str:
    wrong = [text for text in outcomes.values() if text not in ("passed", "skipped")]
    if wrong:
        return wrong[0]
    if len(outcomes) < peers:
        return "not over on all peers"
    return "passed" if "passed" in outcomes.values() else "skipped"
