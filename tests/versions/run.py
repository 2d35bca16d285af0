"""Runs the programs in `programs/` with the versions that README promises, and prints a table.

    make test-versions                                 the whole matrix, an hour
    make test-versions KERAS=3.8 TF=2.18 PYTHON=3.12   the rows that match
    make test-versions-slice                           the rows that each change is tested with

Exit code 1 if a released version fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import environments
import rows

PROGRAMS = Path(__file__).resolve().parent / "programs"
TOGETHER = (
    *("readme", "tape", "steps_per_execution", "train_step", "uneven", "metrics"),
    *("callbacks", "saving", "averaging", "loss_scale"),
)
ALL = (*TOGETHER, "elastic", "info")
TIMEOUT = 300.0  # seconds for one job
# `tf.keras` may be a module that loads the real one lazily: one of its classes tells which.
ASK_VERSIONS = (
    "import importlib, platform, numpy, tensorflow as tf;"
    "keras = importlib.import_module(tf.keras.Model.__module__.split('.')[0]);"
    "print(platform.python_version(), tf.__version__, keras.__name__, keras.__version__,"
    " numpy.__version__)"
)


class Versions(NamedTuple):
    """The versions of a row's packages, as these report them.

    Attributes:
        package: The name of the Keras that `tf.keras` is: "keras" or "tf_keras".
        keras: The version of that package.
    """

    python: str = "?"
    tensorflow: str = "?"
    package: str = "keras"
    keras: str = "?"
    numpy: str = "?"

    @property
    def title(self) -> str:
        """What the table says of Keras."""
        return self.keras if self.package == "keras" else f"tf-keras {self.keras}"


@dataclasses.dataclass
class Result:
    """The result of one row.

    Attributes:
        row: The row.
        versions: The versions that its interpreter reports.
        failed: The reason for each program that failed or could not be run.
        digests: For each program, that of the weights it trained, and that of plain Keras'.
        seconds: How long it took, without installing.
    """

    row: rows.Row
    versions: Versions = dataclasses.field(default_factory=Versions)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    digests: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keras", default="", help="the version of Keras: 3.8, nightly or legacy")
    parser.add_argument("--tensorflow", default="")
    parser.add_argument("--python", default="")
    parser.add_argument(
        "--slice", action="store_true", help="the rows that each change is tested with"
    )
    parser.add_argument(
        "--page", type=Path, help="a file for the table, as a page of the documentation"
    )
    options = parser.parse_args()
    wanted = [
        row
        for row in (rows.SLICE if options.slice else rows.MATRIX)
        if row.matches(options.keras, options.tensorflow, options.python)
    ]
    if not wanted:
        parser.error("no row of the matrix matches")
    results = []
    for row in wanted:
        results.append(attempt(row))
        print(line(results[-1], results), flush=True)
        for program, why in results[-1].failed.items():
            print(f"    {program}: {why}", flush=True)
        if options.page:
            options.page.write_text(page(results))
    refusal = attempt_the_unsupported()
    unexpected = [result for result in results if result.failed and not result.row.may_fail]
    for result in results:
        if result.failed and result.row.may_fail:
            print(f"NIGHTLY FAILS: {line(result, results)}", flush=True)
    print(f"Keras {rows.TOO_OLD.keras}: {refusal or 'NOT REFUSED'}")
    failed = len(unexpected) + (not refusal)
    print(f"{len(results) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


def attempt_the_unsupported() -> str | None:
    """The message that refuses a Keras that is too old; None if the README's program trains."""
    python, variables = environments.prepare(rows.TOO_OLD)
    code, output = Job(python, variables).launch("-np", "2", program="readme")
    refusal = re.search(r"UnsupportedVersionError: (keras 3\.2\.1 cannot be used with .*)", output)
    return refusal[1] if refusal and code != 0 and "Epoch 1" not in output else None


def attempt(row: rows.Row) -> Result:
    """Runs all programs on `row`."""
    result = Result(row)
    try:
        python, variables = environments.prepare(row)
    except (environments.Unavailable, subprocess.SubprocessError) as error:
        result.failed = dict.fromkeys(ALL, str(error))
        return result
    job = Job(python, variables)
    result.versions = Versions(*job.run("-c", ASK_VERSIONS)[1].split()[-5:])
    begin = time.monotonic()
    _run_together(job, result)
    _run_elastic(job, result)
    _run_info(job, result)
    result.seconds = time.monotonic() - begin
    return result


def _run_together(job: Job, result: Result) -> None:
    """Runs programs in one job; if one fails, those after it run in a new job."""
    waiting = list(TOGETHER)
    while waiting:
        _, output = job.launch("-np", "2", program="all", arguments=waiting)
        passed = re.findall(r"passed (\w+)", output)
        waiting = waiting[len(passed) :]
        for name, ours, plain in re.findall(r"digest (\w+) (\w+) (\w+)", output):
            result.digests[name] = ours, plain
        if waiting:
            result.failed[waiting.pop(0)] = cause(output)


def _run_elastic(job: Job, result: Result) -> None:
    code, output = job.launch("-w", "-np", "1", "-H", "127.0.0.1:2", program="elastic")
    if code != 0 or "passed elastic" not in output:
        result.failed["elastic"] = cause(output)


def _run_info(job: Job, result: Result) -> None:
    code, output = job.run("-m", "kungfu_tf.info")
    if code != 0 or result.versions.keras not in output:
        result.failed["info"] = cause(output)


@dataclasses.dataclass
class Job:
    """Runs programs with the versions of one row."""

    python: Path
    variables: dict[str, str]

    def run(self, *arguments: str | Path) -> tuple[int, str]:
        """Runs the interpreter; returns its exit code and output."""
        environ = {**os.environ, **self.variables}
        with tempfile.TemporaryDirectory() as here:
            try:
                done = subprocess.run(
                    [self.python, *arguments],
                    cwd=here,
                    env={**environ, "TMPDIR": here},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=TIMEOUT,
                )
            except subprocess.TimeoutExpired as error:
                return 124, f"{(error.stdout or b'').decode()}\nTimeoutError: after {TIMEOUT:g} s"
        return done.returncode, done.stdout

    def launch(self, *flags: str, program: str, arguments: Sequence[str] = ()) -> tuple[int, str]:
        """Runs a program as a job of peers."""
        file = PROGRAMS / f"{program}.py"
        return self.run("-m", "kungfu_tf.launcher", *flags, self.python, file, *arguments)


def cause(output: str) -> str:
    """The line of the first error in an output, else its last line."""
    errors = re.findall(r"^.*?((?:\w+\.)*\w*(?:Error|Exception)\b.*)$", output, re.MULTILINE)
    return (errors or output.strip().splitlines()[-1:] or ["no output"])[0][:300]


def line(result: Result, results: list[Result]) -> str:
    """A row of the table of `results`."""
    versions = result.versions
    marks = ["no" if program in result.failed else "yes" for program in ALL]
    cells = [
        versions.title,
        versions.tensorflow,
        versions.python,
        versions.numpy,
        *marks,
        bits(result, results),
    ]
    return f"| {' | '.join(cells)} |"


def bits(result: Result, results: list[Result]) -> str:
    """How many programs have the same weights, bit by bit, as in all rows in which plain Keras has
    the same weights, of those that compare them."""
    equal = 0
    for name, (ours, plain) in result.digests.items():
        others = [other.digests[name] for other in results if name in other.digests]
        equal += all(theirs == ours for theirs, expected in others if expected == plain)
    return f"{equal} of {len(result.digests)}"


def page(results: list[Result]) -> str:
    """The table, for the documentation."""
    heads = ["Keras", "TensorFlow", "Python", "NumPy", *ALL, "same bits"]
    day = datetime.date.today().isoformat()
    return "\n".join(
        [
            "# Tested versions",
            "",
            f"`make test-versions` made this table on {day}. Each column is a program in",
            "`tests/versions/programs/`, run by two processes. It compares what they train with",
            "plain Keras in one process. Some programs compare weights bit by bit, between",
            "those rows with which plain Keras has the same bits. The last column counts the",
            "programs that found them equal.",
            "",
            f"| {' | '.join(heads)} |",
            f"|{'---|' * len(heads)}",
            *(line(result, results) for result in results),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
