"""The outer optimizers of DiLoCo that `accuracy.py` tries, and how good models become by each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import report
from accuracy_runs import ALONE, PLAIN, TASKS, Results, Table, recovered, table_of

EVERY = 50


class Outer(NamedTuple):
    """SGD as the outer optimizer.

    Attributes:
        rate: Its learning rate.
        momentum: From 0 to below 1.
        is_nesterov: Whether it is Nesterov's.
    """

    rate: float
    momentum: float
    is_nesterov: bool = False

    @property
    def method(self) -> str:
        """The name of DiLoCo with it."""
        return f"diloco{EVERY}-{self.rate}-{self.momentum}{'n' * self.is_nesterov}"


# By method. The first two have names of their own.
OUTERS = {
    "diloco50": Outer(0.7, 0.9, True),
    "local50": Outer(1.0, 0.0),
    **{
        outer.method: outer
        for outer in (
            Outer(0.7, 0.8, True),
            Outer(0.7, 0.5, True),
            Outer(1.0, 0.8, True),
            Outer(1.0, 0.5, True),
            Outer(1.0, 0.3, True),
            Outer(1.0, 0.8),
            Outer(1.0, 0.5),
        )
    },
}


def section(results: Results, steps: int, seeds: int) -> Iterator[str]:
    """Markdown."""
    yield from (f"## Outer optimizers of DiLoCo {EVERY}", "")
    yield (
        f"DiLoCo {EVERY}, with its {steps // EVERY} meetings, was trained with several outer "
        "optimizers, all SGD, and each at its own best rate out of the same ones. Whoever chooses "
        f"among them has {len(OUTERS)} times the trials of S-SGD, so the choice is by the samples "
        "for validation. 0.7 with Nesterov momentum 0.9 is the paper's, and the default. 1 without "
        "momentum is LocalSGD."
    )
    for task in TASKS:
        yield from ("", *rows(task, table_of(results, task, steps, seeds, [ALONE, PLAIN, *OUTERS])))
    yield ""


def rows(task: str, table: Table) -> Iterator[str]:
    """Markdown: those that were trained."""
    form = f".{TASKS[task].digits}f"
    yield f"| {TASKS[task].title} | validation | {TASKS[task].score} | recovered | rate |"
    yield "|---|---|---|---|---|"
    for method in (method for method in OUTERS if method in table):
        outer, found = OUTERS[method], table[method]
        share = recovered(task, table, method)
        cells = (
            f"{outer.rate:g}, {'Nesterov ' * outer.is_nesterov}momentum {outer.momentum:g}",
            f"{found.validation:{form}}",
            report.show_mean(found.test, form),
            "" if share is None else f"{100 * share:.0f} %",
            f"{found.rate:g}",
        )
        yield "| " + " | ".join(cells) + " |"
