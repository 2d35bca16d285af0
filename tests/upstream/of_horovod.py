"""Runs Horovod's own tests, unedited, on several peers, and prints a line for each that fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TABLE = HERE / "horovod.txt"

_LINE = re.compile(r"^\[(\d+)\] TEST (\S+) (passed|failed|skipped) ?(.*)$", re.MULTILINE)
_NO_TEST = "Not a test"


def run(checkout: Path, python: str, only: str, limit: float) -> int:
    """Runs the files of the table whose lines contain a word.

    Args:
        checkout: Of Horovod.
        python: The interpreter.
        only: The word.
        limit: The most seconds that a file may take.

    Returns:
        The exit code: 1 if a test has failed.
    """
    failed = 0
    for line in TABLE.read_text().splitlines():
        if not line or line.startswith("#") or only not in line:
            continue
        file, peers, *why = (column.strip() for column in line.split("|"))
        if peers == "n/a":
            print(f"n/a   {file}  ({why[0]})", flush=True)
            continue
        for name, reason in (results := _run(checkout / file, python, peers, limit)).items():
            if reason not in ("passed", "skipped"):
                print(f"FAIL  {name}  ({reason})", flush=True)
        counts = Counter(r if r in ("passed", "skipped") else "failed" for r in results.values())
        failed += counts["failed"]
        print(f"{file} on {peers} peers: {dict(counts)}", flush=True)
    return 1 if failed else 0


def _run(file: Path, python: str, peers: str, limit: float) -> dict[str, str]:
    """For each test "passed", "skipped" (on all peers) or why it has failed.

    A file that has not ended as it should is among them.
    """
    output = Path(tempfile.mkdtemp(prefix="kungfu-upstream-")) / "output"
    job = [python, "-m", "kungfu_tf.launcher", "-np", peers, "-compat", "horovod"]
    with output.open("w") as target:
        process = subprocess.Popen(
            [*job, python, str(HERE / "with_horovod.py"), str(file), "--timeout", "300"],
            cwd=output.parent,
            env=_environment(),
            stdout=target,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait(limit)
            ended = "" if code == 0 else f"exit code {code}; {output}"
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            process.wait()
            ended = f"not over after {limit:g} s; {output}"
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for rank, name, outcome, why in _LINE.findall(output.read_text()):
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


def _environment() -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "KUNGFU_COLLECTIVE_TIMEOUT": "60",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
