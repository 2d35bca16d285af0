"""Tables and pictures, and where they come from."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from measure import Figures
from systems import CORES, ROOT, vectors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RESULTS = ROOT / "benchmarks" / "results"


def parser(description: str, rounds: int | None = None) -> argparse.ArgumentParser:
    """Of what all benchmarks can be told.

    Args:
        description: The benchmark's docstring.
        rounds: How often it measures if not told; None: it cannot be told.
    """
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    if rounds is not None:
        text = "how often to measure (%(default)s)"
        made.add_argument("--rounds", type=_positive, default=rounds, help=text)
    text = "the folder for table and picture (benchmarks/results)"
    made.add_argument("--results", type=Path, metavar="DIR", default=RESULTS, help=text)
    return made


def _positive(text: str) -> int:
    """An option's number, for argparse."""
    with contextlib.suppress(ValueError):
        if (number := int(text)) >= 1:
            return number
    raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, not '{text}'")


@functools.cache
def provenance() -> str:
    """One line: machine, commit, day; the same in a process, whatever it has written since."""
    day = datetime.datetime.now(datetime.timezone.utc).date()
    system = f"{platform.system()} {platform.release()}"
    machine = ", ".join([_processor(), f"{CORES} cores", *_caches(), _vectors(), system])
    return f"{machine}; commit {commit()}; {day}."


def commit() -> str:
    """Of the checkout, with a mark if anything but results was changed since."""
    code = [".", ":!benchmarks/results"]
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", *code)
    name = _git("describe", "--always", "--abbrev=12") or "unknown"
    return name + ("-dirty" if changes else "")


def _git(*arguments: str) -> str:
    git = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(git, capture_output=True, text=True).stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _caches() -> Iterator[str]:
    """The outer ones, as the first core sees them."""
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, size = ((cache / name).read_text().strip() for name in ("level", "size"))
        if level in ("2", "3"):
            yield f"L{level} {show_key(str(int(size.removesuffix('K')) << 10))}"


def _vectors() -> str:
    """The vector instructions of the core's arithmetic: what it is told, or chooses."""
    told = os.environ.get("KUNGFU_SIMD", "auto")
    if told != "auto":
        return told
    return ["baseline", *vectors()][-1]


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


def ends(figures: Sequence[float]) -> tuple[float, float]:
    return min(figures), max(figures)


def show_mean(figures: Sequence[float], form: str) -> str:
    """The mean, and from where to where they lie."""
    mean, least, most = (f"{x:{form}}" for x in (statistics.mean(figures), *ends(figures)))
    return f"{mean} ({least} to {most})"


def show(figures: Sequence[float]) -> str:
    """The median, and how far the rounds lie apart if there are several."""
    if not figures:
        return "no result"
    middle, width = statistics.median(figures), max(figures) - min(figures)
    spread = f" ±{width / middle / 2 * 100:.0f} %" if len(figures) > 1 else ""
    return show_seconds(middle) + spread


def table(figures: Figures, keys: Sequence[str]) -> Iterator[str]:
    """A Markdown table: a row for each system, medians of the rounds with half their spread."""
    yield "| | " + " | ".join(map(show_key, keys)) + " |"
    yield "|---" * (1 + len(keys)) + "|"
    for name, by_key in figures.items():
        yield f"| {name} | " + " | ".join(show(by_key.get(key, [])) for key in keys) + " |"


def label_times(axis: Axes, title: str, keys: str) -> None:
    """What a panel shows that has seconds by keys, which are that."""
    axis.set(title=title, xlabel=keys, yscale="log", ylabel="seconds")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")


def tell(notes: Sequence[str]) -> None:
    """At once: a table comes last."""
    for note in notes:
        print(note, file=sys.stderr)


def write(path: Path, title: str, body: Sequence[str], figure: Figure | None = None) -> None:
    """A table, under its title and where it comes from; to the terminal, too.

    One without a row ends this process with code 1, and what was written before stays.

    Args:
        path: Of the files, without `.md` and `.png`; its folder is made.
        title: The heading.
        body: Lines of Markdown.
        figure: The picture beside it.
    """
    if not _has_rows(body):
        sys.exit(f"nothing was measured: {path.with_suffix('.md')} is not written")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join([f"# {title}", "", provenance(), "", *body]) + "\n"
    path.with_suffix(".md").write_text(text)
    print(text)
    if figure:
        figure.savefig(path.with_suffix(".png"), dpi=110)


def _has_rows(body: Sequence[str]) -> bool:
    """Whether a table of it has more than its two lines of head."""
    of_tables = [line for line in body if line.startswith("|")]
    heads = sum(line.startswith("|---") for line in of_tables)
    return len(of_tables) > 2 * heads
