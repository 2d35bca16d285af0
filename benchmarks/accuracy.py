"""How good four peers' models become by each method that talks less, each at its own best rate.

Writes `results/accuracy.md` and `results/accuracy.png`.

    python benchmarks/accuracy.py [--only METHOD...] [--seeds 3] [--steps 1000] [--results DIR]

Two tasks: Fashion-MNIST, and the next character of Jane Austen's novels. That takes an hour and a
half on two cores: trainings are kept in results/accuracy.jsonl, and those that stand there are not
repeated: remove it to train anew. So it may be ended, and called again.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

import outers
import report
from accuracy_runs import (
    ALONE,
    METHODS,
    PEERS,
    PLAIN,
    TASKS,
    Results,
    Run,
    Table,
    gained,
    kept,
    recovered,
    runs_of,
    show_rate,
    table_of,
    train_missing,
)
from matplotlib import colormaps
from matplotlib.figure import Figure

SEEDS, STEPS = 3, 1000
KIB = 1 << 10


class Target(NamedTuple):
    """What a method means to reach.

    Attributes:
        task: Where.
        method: Which.
        least: The part of what lies between one peer and S-SGD that it has; or None.
        most: How much worse it is than another one; or None.
        other: That one.
    """

    task: str
    method: str
    least: float | None = None
    most: float | None = None
    other: str = PLAIN


TARGETS = [
    Target("images", "int8", most=0.3),
    Target("images", "power", most=0.3),
    Target("images", "decentralized", most=0.2),
    *(Target(task, "local10", least=0.6) for task in TASKS),
    *(Target(task, "diloco50", least=0.35) for task in TASKS),
    *(Target(task, "diloco50-1.0-0.5n", least=0.35) for task in TASKS),
    Target("novels", "diloco50-int8", most=0.005, other="diloco50"),
]


def rows(task: str, table: Table) -> Iterator[str]:
    """Markdown."""
    form = f".{TASKS[task].digits}f"
    yield f"| | {TASKS[task].score} | than S-SGD | recovered | KiB a step | rate |"
    yield "|---|---|---|---|---|---|"
    for method, found in table.items():
        beside = part = ""
        if PLAIN in table and method != PLAIN:
            beside = f"{TASKS[task].sign * gained(task, found, table[PLAIN]):+{form}}"
        if method not in (ALONE, PLAIN) and (share := recovered(task, table, method)) is not None:
            part = f"{100 * share:.0f} %"
        cells = (
            METHODS[method],
            report.show_mean(found.test, form),
            beside,
            part,
            f"{found.sent / KIB:.4g}" if method != ALONE else "0",
            show_rate(task, found.rate),
        )
        yield "| " + " | ".join(cells) + " |"


def verdicts(tables: dict[str, Table]) -> Iterator[str]:
    """Markdown: the targets of what was trained."""
    yield from ("## Targets", "", "| | measured | target | |", "|---|---|---|---|")
    for target in TARGETS:
        table, task = tables[target.task], TASKS[target.task]
        if not {target.method, target.other, ALONE} <= table.keys():
            continue
        title = f"{METHODS[target.method]}, {task.title}"
        if target.least is not None:
            part = recovered(target.task, table, target.method) or 0.0
            is_reached, measured = part >= target.least, f"{100 * part:.0f} % recovered"
            text = f"at least {100 * target.least:.0f} %"
        else:
            lost = -gained(target.task, table[target.method], table[target.other])
            most = target.most or 0.0
            is_reached, measured = lost <= most, f"{lost:+.{task.digits}f} worse"
            text = f"at most {most:g} than {METHODS[target.other]}"
        yield f"| {title} | {measured} | {text} | {'reached' if is_reached else 'missed'} |"


def losers(tables: dict[str, Table]) -> Iterator[str]:
    """Markdown: which methods are worse than S-SGD by more than its seeds differ."""
    for task, table in tables.items():
        if PLAIN not in table:
            continue
        least, most = report.ends(table[PLAIN].test)
        lost = {m: -gained(task, found, table[PLAIN]) for m, found in table.items() if m != ALONE}
        worst = sorted((m for m in lost if lost[m] > most - least), key=lambda m: -lost[m])
        named = ", ".join(f"{METHODS[m]} ({lost[m]:.{TASKS[task].digits}f})" for m in worst)
        width = f"{most - least:.{TASKS[task].digits}f}"
        yield (
            f"- {TASKS[task].title}: worse than S-SGD by more than its seeds differ ({width}): "
            f"{named or 'none'}."
        )


def plot(results: Results, tables: dict[str, Table], steps: int, seeds: int) -> Figure:
    """The score by learning rate, and by the bytes of a step. A method has one colour."""
    figure = Figure(figsize=(11, 8), layout="constrained")
    panels = figure.subplots(len(TASKS), 2, squeeze=False)
    palette = [*colormaps["tab20"].colors, *colormaps["tab20b"].colors]
    colors = dict(zip(METHODS, palette, strict=False))
    for (left, right), (name, table) in zip(panels, tables.items(), strict=True):
        task = TASKS[name]
        for method, found in table.items():
            by_rate = [
                [results[Run(name, method, steps, n, rate)].test for n in range(1, seeds + 1)]
                for rate in task.rates
            ]
            means = list(map(statistics.mean, by_rate))
            left.plot(task.rates, means, marker=".", color=colors[method], label=METHODS[method])
            mean = statistics.mean(found.test)
            if method == ALONE:
                right.axhline(mean, color=colors[method], linestyle=":")
            else:
                right.plot(found.sent / KIB, mean, "o", color=colors[method])
        left.set(title=task.title, xscale="log", xlabel="learning rate", ylabel=task.score)
        left.set_xticks(task.rates, [f"{rate:g}" for rate in task.rates])
        left.set_xticks([], minor=True)
        right.set(title=f"{task.title}, best rates", xscale="log", xlabel="KiB sent in a step")
        tests = [statistics.mean(found.test) for found in table.values()]
        if tests:
            low, high = report.ends(tests)
            worse, better = sorted((low, high), reverse=task.sign < 0)
            left.set_ylim(sorted((worse - (better - worse), better + (better - worse) / 3)))
        for axes in (left, right):
            axes.grid(alpha=0.3)
    labels = [left.get_legend_handles_labels() for left, _ in panels]
    lines = {label: line for pair in labels for line, label in zip(*pair, strict=True)}
    figure.legend([*lines.values()], [*lines], loc="outside lower center", ncols=4)
    return figure


def body(results: Results, tables: dict[str, Table], steps: int, seeds: int) -> list[str]:
    """Markdown."""
    lines = [
        f"{PEERS} peers with equal shards, {steps} steps, a rate that falls along a cosine. Each "
        "method has that rate which is best for it by the mean of "
        f"{seeds} seeds on samples that are neither trained with nor shown. Beside it stands "
        "whether it is at the edge of what was tried. What else methods have is at its default. "
        "'Outer 1 / 0.5' is an outer optimizer SGD with rate 1 and Nesterov momentum 0.5. "
        "One peer is the mean of four, each of which trains with its shard alone, as many steps. "
        "'Recovered' is a method's part of what lies between one peer and S-SGD. Bytes are the "
        "core's count, headers included. Trained at "
        f"{', '.join(sorted({result.commit for result in results.values()}))}.",
        "",
    ]
    for task, table in tables.items():
        rates = ", ".join(f"{rate:g}" for rate in TASKS[task].rates)
        lines += [f"## {TASKS[task].title}", "", f"{TASKS[task].text} Rates: {rates}.", ""]
        lines += [*rows(task, table), ""]
    lines += [*verdicts(tables), "", *losers(tables), ""]
    return [*lines, *outers.section(results, steps, seeds)]


def main() -> None:
    parser = report.parser(__doc__)
    choices = [*dict.fromkeys([*METHODS, *outers.OUTERS])]
    parser.add_argument("--only", nargs="+", choices=choices, metavar="METHOD", default=choices)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    path, steps, seeds = options.results / "accuracy.jsonl", options.steps, options.seeds
    results = kept(path)
    for task in TASKS:
        runs = (runs_of(task, method, steps, seeds) for method in options.only)
        train_missing(results, path, [run for of_method in runs for run in of_method])
    tables = {task: table_of(results, task, steps, seeds) for task in TASKS}
    title = "Accuracy of methods that talk less"
    picture = plot(results, tables, steps, seeds)
    report.write(options.results / "accuracy", title, body(results, tables, steps, seeds), picture)


if __name__ == "__main__":
    main()
