"""The table of the slowest jobs."""

from __future__ import annotations

from pathlib import Path

from tests import slowest

PYTEST = """....                                   [100%]
============ slowest 20 durations =============
12.50s call     tests/python/cluster/cases/keras/cases_fit.py::np3::metrics[a b]
3.00s setup    tests/fault/test_peers.py::test_one
4 passed in 20.00s (0:00:20)
"""
CTEST = """    Start 1: base
1/2 Test #1: base .............................   Passed    2.75 sec
2/2 Test #2: collective .......................***Failed  130.00 sec
"""


def test_all_parts_are_sorted_together(tmp_path: Path) -> None:
    logs = {"test-cluster": PYTEST, "test-cpp": CTEST}
    for name, text in logs.items():
        (tmp_path / f"{name}.log").write_text(text)
    lines = slowest.table(tmp_path / f"{name}.log" for name in logs).splitlines()
    assert lines[0] == "The slowest 4 jobs:"
    assert [line.split()[0] for line in lines[1:]] == ["130.0", "12.5", "3.0", "2.8"]
    assert lines[1].split()[2:] == ["test-cpp", "collective"]
    assert lines[2].endswith(
        "test-cluster       tests/python/cluster/cases/keras/cases_fit.py::np3::metrics[a b]"
    )


def test_there_are_at_most_twenty(tmp_path: Path) -> None:
    log = tmp_path / "test-cluster.log"
    log.write_text("".join(f"{number}.0s call     test_{number}\n" for number in range(30)))
    lines = slowest.table([log]).splitlines()
    assert len(lines) == 1 + slowest.SHOWN
    assert lines[1].endswith("test_29")
