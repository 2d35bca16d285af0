"""Runs Horovod's own tests and elastic programs, unedited, on several peers."""

from __future__ import annotations

import json
import os
import re
import shlex
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
        file, peers, *others = (column.strip() for column in line.split("|"))
        if peers == "n/a":
            print(f"n/a   {file}  ({others[0]})", flush=True)
            continue
        if not peers.isdigit():
            wrong = _run_elastic(checkout / file, python, peers, *others, limit)
            print(f"{'FAIL' if wrong else 'pass'}  {line}{wrong and f'  ({wrong})'}", flush=True)
            failed += bool(wrong)
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


def _run_elastic(
    file: Path, python: str, flags: str, arguments: str, expected: str, limit: float
) -> str:
    """Runs a program that writes the number of its peers after each epoch.

    Returns:
        What is wrong; nothing if it does what is expected.
    """
    folder = Path(tempfile.mkdtemp(prefix="kungfu-upstream-"))
    log = folder / "log"
    job = [python, "-m", "kungfu_tf.launcher", *flags.split()]
    with (folder / "output").open("w") as target:
        process = subprocess.Popen(
            [*job, python, str(file), "--logfile", str(log), *shlex.split(arguments)],
            cwd=folder,
            env=_environment(),
            stdout=target,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            process.wait()
            return f"not over after {limit:g} s; {folder}/output"
    epochs = log.read_text().splitlines() if log.exists() else []
    found = [str(json.loads(epoch)["size"]) for epoch in epochs] + ["fails"] * (code != 0)
    return "" if found == expected.split() else f"{' '.join(found)}; {folder}/output"


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
