"""Runs Horovod's own tests and elastic programs, unedited, on several peers."""

from __future__ import annotations

from pathlib import Path

import elastic_job
import files_of_tests
import tables

HERE = Path(__file__).resolve().parent
TABLE = HERE / "horovod.txt"
ELASTIC_TABLE = HERE / "horovod_elastic.txt"
ELASTIC = {
    "elastic_tensorflow2_main.py": "horovod",
    "elastic_tensorflow_main.py": "horovod,tf1",
    "elastic_tensorflow_keras_main.py": "horovod,tf1",
}


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
    failed = files_of_tests.run(TABLE, checkout, python, "horovod", only, limit)
    for file, compat in ELASTIC.items():
        for line in tables.lines(ELASTIC_TABLE, "" if only in file else only):
            columns = [column.strip() for column in line.split("|")]
            job = elastic_job.Job(checkout / "test" / "integration" / "data" / file, *columns[1:])
            wrong = job.run(python, compat, files_of_tests.environment(), limit)
            why = f"  ({wrong})" if wrong else ""
            print(f"{'FAIL' if wrong else 'pass'}  {file}: {line}{why}", flush=True)
            failed += bool(wrong)
    return 1 if failed else 0
