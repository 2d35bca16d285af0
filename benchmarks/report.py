"""Tables, plots, and where they come from."""

from __future__ import annotations

import datetime
import platform
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from measure import Figures
from systems import CORES, ROOT

RESULTS = ROOT / "benchmarks" / "results"


def provenance() -> str:
    """One line: machine, commit, day."""
    day = datetime.datetime.now(datetime.timezone.utc).date()
    return f"{_processor()}, {CORES} cores, {platform.system()}; commit {commit()}; {day}."


def commit() -> str:
    """Of the checkout, with a mark if it was changed since."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def show_key(key: str) -> str:
    """A number of bytes, or a name as it is."""
    if not key.isdigit():
        return key
    for unit, bits in (("MiB", 20), ("KiB", 10)):
        if int(key) >= 1 << bits:
            return f"{int(key) >> bits} {unit}"
    return f"{key} B"


def show_seconds(seconds: float) -> str:
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds * 1e6:.2g} µs" if seconds < 1e-5 else f"{seconds * 1e6:.0f} µs"


def show(figures: Sequence[float]) -> str:
    """The median, and how far the rounds lie apart."""
    if not figures:
        return ""
    middle, width = statistics.median(figures), max(figures) - min(figures)
    return f"{show_seconds(middle)} ±{width / middle / 2 * 100:.0f} %"


def table(figures: Figures, keys: Sequence[str]) -> Iterator[str]:
    """A Markdown table: a row for each system, medians of the rounds with half their spread."""
    yield "| | " + " | ".join(map(show_key, keys)) + " |"
    yield "|---" * (1 + len(keys)) + "|"
    for name, by_key in figures.items():
        yield f"| {name} | " + " | ".join(show(by_key.get(key, [])) for key in keys) + " |"


def write(name: str, lines: Sequence[str]) -> None:
    """Into results/, and to the terminal."""
    RESULTS.mkdir(exist_ok=True)
    text = "\n".join(lines) + "\n"
    (RESULTS / f"{name}.md").write_text(text)
    print(text)


def plot(name: str, panels: dict[str, Figures]) -> None:
    """A picture of times by keys, a panel for each title."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(7 * len(panels), 6), squeeze=False, layout="constrained"
    )
    for axis, (title, figures) in zip(axes[0], panels.items(), strict=True):
        for system, by_key in figures.items():
            medians = [statistics.median(seconds) for seconds in by_key.values()]
            style = "--" if system.startswith("limit") else "-"
            axis.plot(list(map(show_key, by_key)), medians, style, marker="o", label=system)
        axis.set(title=title, yscale="log", ylabel="seconds")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    figure.savefig(RESULTS / f"{name}.png", dpi=110)
