"""The outer optimizers of DiLoCo that `accuracy.py` tries, and how good models become by each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import report
from accuracy_runs import ALONE, PLAIN, TASKS, Results, Table, recovered, show_rate, table_of


class Outer(NamedTuple):
    """DiLoCo with SGD as its outer optimizer.

    Attributes:
        every: The steps between two meetings.
        rate: The learning rate of the outer optimizer.
        momentum: Its momentum, from 0 to below 1.
        is_nesterov: Whether that is Nesterov's.
    """

    every: int
    rate: float
    momentum: float
    is_nesterov: bool = True

    @property
    def method(self) -> str:
        """Its name for the program."""
        if self[1:] == PAPERS:
            return f"diloco{self.every}"
        if self.rate == 1 and not self.momentum:
            return f"local{self.every}"
        return f"diloco{self.every}-{self.rate}-{self.momentum}{'n' * self.is_nesterov}"


PAPERS = (0.7, 0.9, True)
TRIED = (
    Outer(50, 0.7, 0.9),
    Outer(50, 0.7, 0.8),
    Outer(50, 0.7, 0.5),
    Outer(50, 1.0, 0.8),
    Outer(50, 1.0, 0.5),
    Outer(50, 1.0, 0.3),
    Outer(50, 1.0, 0.8, is_nesterov=False),
    Outer(50, 1.0, 0.5, is_nesterov=False),
    Outer(50, 1.0, 0.0, is_nesterov=False),
    Outer(20, 0.7, 0.9),
    Outer(20, 0.7, 0.8),
    Outer(20, 1.0, 0.5),
    Outer(10, 0.7, 0.9),
    Outer(10, 0.7, 0.8),
    Outer(10, 1.0, 0.5),
    Outer(10, 1.0, 0.0, is_nesterov=False),
)
OUTERS = {outer.method: outer for outer in TRIED}


def section(results: Results, steps: int, seeds: int) -> Iterator[str]:
    """Markdown."""
    yield from ("## Outer optimizers of DiLoCo", "")
    yield (
        "DiLoCo was trained with several outer optimizers, all SGD, and each at its own best rate "
        "out of the same ones. A choice among n of them has n times the trials of S-SGD, so it "
        "is made by the samples for validation. 0.7 with Nesterov momentum 0.9 is the "
        "paper's, and the default. 1 without momentum is LocalSGD."
    )
    for task in TASKS:
        table = table_of(results, task, steps, seeds, [ALONE, PLAIN, *OUTERS])
        yield from ("", *rows(task, table, steps))
    yield ""


def rows(task: str, table: Table, steps: int) -> Iterator[str]:
    """Markdown: those that were trained."""
    form = f".{TASKS[task].digits}f"
    yield (
        f"| {TASKS[task].title} | meetings | validation | {TASKS[task].score} | recovered | rate |"
    )
    yield "|---|---|---|---|---|---|"
    for method in (method for method in OUTERS if method in table):
        outer, found = OUTERS[method], table[method]
        share = recovered(task, table, method)
        cells = (
            f"{outer.rate:g}, {'Nesterov ' * outer.is_nesterov}momentum {outer.momentum:g}",
            f"{steps // outer.every}",
            f"{found.validation:{form}}",
            report.show_mean(found.test, form),
            "" if share is None else f"{100 * share:.0f} %",
            show_rate(task, found.rate),
        )
        yield "| " + " | ".join(cells) + " |"
