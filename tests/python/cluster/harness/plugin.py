"""Makes pytest items of cases, and shares one job among those that want the same peers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import matrix_count
from harness.collect import Case, Job, Launch, read_jobs
from harness.launch import CaseFailed, RunningJob

MOST_FAILURES = 3


class SharedJob:
    """The one job that is running, or none."""

    def __init__(self) -> None:
        self._running: RunningJob | None = None

    def run(self, launch: Launch, case: Case) -> str | None:
        """Starts the job if none is running. A case that fails ends it.

        Returns:
            Why the case was skipped, if it was.

        Raises:
            CaseFailed: with the traceback of each rank where it failed.
        """
        running, self._running = self._running or RunningJob(launch), None
        skipped = running.run(case)
        self._running = running
        return skipped

    def end(self) -> None:
        """
        Raises:
            CaseFailed: the job did not end with code 0.
        """
        running, self._running = self._running, None
        if running is not None:
            running.close()


SHARED = pytest.StashKey[SharedJob]()


class CasesFile(pytest.File):
    """`cases_<topic>.py`."""

    def collect(self) -> Iterator[pytest.Collector]:
        for job in read_jobs(self.path):
            yield JobCollector.from_parent(self, name=job.id, job=job)


class JobCollector(pytest.Collector):
    """The cases of a module that run with the same peers."""

    def __init__(self, *, job: Job, **rest: Any) -> None:
        super().__init__(**rest)
        self.job = job
        self.failures = 0

    def collect(self) -> Iterator[pytest.Item]:
        for case in self.job.cases:
            yield CaseItem.from_parent(self, name=case.name, case=case)

    def run(self, case: Case) -> str | None:
        if self.failures == MOST_FAILURES:
            raise CaseFailed(f"not run: {MOST_FAILURES} cases before it failed in this job")
        try:
            return self.config.stash[SHARED].run(self.job.launch, case)
        except CaseFailed:
            self.failures += 1
            raise


class CaseItem(pytest.Item):
    """One case in one job."""

    def __init__(self, *, case: Case, **rest: Any) -> None:
        super().__init__(**rest)
        self.case = case
        if case.exhaustive:
            self.add_marker("exhaustive")

    @property
    def collector(self) -> JobCollector:
        assert isinstance(self.parent, JobCollector)
        return self.parent

    @property
    def launch(self) -> Launch:
        return self.collector.job.launch

    def runtest(self) -> None:
        skipped = self.collector.run(self.case)
        if skipped is not None:
            pytest.skip(skipped)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("python_files", "cases_*.py")
    config.stash[SHARED] = SharedJob()
    config.pluginmanager.register(matrix_count)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    if module_path.name.startswith("cases_"):
        return CasesFile.from_parent(parent, path=module_path)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Brings together what shares a job; everything else stays where it is."""
    slots = [slot for slot, item in enumerate(items) if isinstance(item, CaseItem)]
    cases = [item for item in items if isinstance(item, CaseItem)]
    launches: list[Launch] = []
    for item in cases:
        if item.launch not in launches:
            launches.append(item.launch)
    cases.sort(key=lambda item: launches.index(item.launch))
    for slot, item in zip(slots, cases, strict=True):
        items[slot] = item


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends the job after the last case that shares it."""
    if not isinstance(item, CaseItem):
        return
    if not isinstance(nextitem, CaseItem) or nextitem.launch != item.launch:
        item.config.stash[SHARED].end()
