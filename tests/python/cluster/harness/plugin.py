"""Makes pytest items of cases, and shares one job among those of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.collect import Case, Job, read_jobs
from harness.launch import CaseFailed, RunningJob

MOST_LAUNCHES = 3


class CasesFile(pytest.File):
    """`cases_<topic>.py`."""

    def collect(self) -> Iterator[pytest.Collector]:
        for job in read_jobs(self.path):
            yield JobCollector.from_parent(self, name=job.id, job=job)


class JobCollector(pytest.Collector):
    """One way to launch a module, and the job that is running for it."""

    def __init__(self, *, job: Job, **rest: Any) -> None:
        super().__init__(**rest)
        self.job = job
        self.running: RunningJob | None = None
        self.launches = 0

    def collect(self) -> Iterator[pytest.Item]:
        for case in self.job.cases:
            yield CaseItem.from_parent(self, name=case.name, case=case)

    def run(self, case: Case) -> None:
        if self.running is None:
            if self.launches == MOST_LAUNCHES:
                raise CaseFailed(f"not run: {MOST_LAUNCHES} cases before it failed in this job")
            self.launches += 1
            self.running = RunningJob(self.job)
        running, self.running = self.running, None
        running.run(case)
        self.running = running

    def teardown(self) -> None:
        running, self.running = self.running, None
        if running is not None:
            running.close()


class CaseItem(pytest.Item):
    """One case in one job."""

    def __init__(self, *, case: Case, **rest: Any) -> None:
        super().__init__(**rest)
        self.case = case

    def runtest(self) -> None:
        assert isinstance(self.parent, JobCollector)
        self.parent.run(self.case)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("python_files", "cases_*.py")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    if module_path.name.startswith("cases_"):
        return CasesFile.from_parent(parent, path=module_path)
    return None
