"""A job that follows the program that says which hosts there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fault.elastic import PYTHON

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fault.conftest import Jobs

PROGRAM = """
import os, sys
import kungfu_tf as kf
if kf.joining():
    kf.resize()
size = 0
while True:
    if kf.size() != size:
        size = kf.size()
        print("rank", kf.rank(), "of", size, flush=True)
    if kf.all_reduce_int_max(os.path.exists(sys.argv[1])):
        break
    kf.resize()
    if kf.detached():
        break
"""


def test_the_job_grows_and_shrinks_with_the_slots(kungfu_run: Jobs, tmp_path: Path) -> None:
    hosts, end = tmp_path / "hosts", tmp_path / "end"
    hosts.write_text("127.0.0.1:1\n")
    found = ("-host-discovery-script", f"cat '{hosts}'", "-np", "1", "-max-np", "3")
    launch = kungfu_run(*found, *PYTHON, PROGRAM, str(end))
    launch.until_printed("rank 0 of 1")
    hosts.write_text("127.0.0.1:4\n")
    launch.until_printed("rank 2 of 3")
    hosts.write_text("127.0.0.1:2\n")
    launch.until_printed("rank 1 of 2")
    end.touch()
    assert launch.wait() == 0, launch.err
