"""Counts the jobs of the matrix of lost peers that ran, among all that there are."""

from __future__ import annotations

from typing import Any

import pytest

MARK = "lost_peers"
_ALL = pytest.StashKey[int]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before some are left out."""
    config.stash[_ALL] = sum(item.get_closest_marker(MARK) is not None for item in items)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    there = config.stash.get(_ALL, 0)
    if there == 0:
        return
    ran = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if report.when == "call" and MARK in report.keywords
    ]
    terminalreporter.write_line(f"matrix of lost peers: {len(ran)} of {there} jobs run")
