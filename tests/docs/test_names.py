"""The files, names, variables and flags that pages mention are there."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

import kungfu_tf
from docs.tools import pages
from kungfu_tf.launcher.options.flags import FLAGS
from kungfu_tf.native import environment

ROOT = Path(__file__).parents[2]
PAGES = sorted({*pages.all_pages(), *ROOT.glob("[A-Z]*.md"), *ROOT.glob("[a-z]*/README.md")})
TOPS = [ROOT, ROOT / "kungfu_tf"]
FOLDERS = "benchmarks|docker|docs|examples|kungfu_tf|ops|requirements|tests"
SOURCES = {
    f"/{file.relative_to(ROOT)}"
    for folder in FOLDERS.split("|")
    for file in (ROOT / folder).rglob("*")
}
NO_SOURCES = {"docs/algorithms.md", "kungfu_tf/lib"}  # gloo's, and what `make build` makes


def code_of(text: str) -> str:
    """The blocks of code of a page, and the code within its prose."""
    return "\n".join(re.findall(r"^```.*?^```|`[^`\n]+`", text, re.MULTILINE | re.DOTALL))


def missing_files(code: str) -> set[str]:
    """Paths from the root, or from the folder of a map, that lead nowhere."""
    paths = set(re.findall(rf"(?<![\w./-])(?:{FOLDERS})/[\w./-]*", code)) - NO_SOURCES
    return {path for path in paths if not any((top / path).exists() for top in TOPS)}


def missing_sources(code: str) -> set[str]:
    """Ends of paths to a source that no file has."""
    ends = set(re.findall(r"`([\w/]+\.(?:cc|h|py))`", code))
    return {end for end in ends if not any(file.endswith(f"/{end}") for file in SOURCES)}


def missing_names(code: str) -> set[str]:
    """Dotted names of the package that it does not have."""
    names = set(re.findall(r"(?<![\w./-])(?:kf|kungfu_tf)((?:\.[a-zA-Z]\w*)+)", code))
    return {name for name in names if not is_name(f"{kungfu_tf.__name__}{name}")}


def is_name(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def missing_variables(code: str) -> set[str]:
    """Environment variables, or macros of the C interface, that nobody reads."""
    known = {setting.name for setting in environment.settings()}
    known |= set(re.findall(r"\bKUNGFU_\w+", (ROOT / "ops/c_api/kungfu.h").read_text()))
    return set(re.findall(r"\bKUNGFU_[A-Z_]+[A-Z]\b", code)) - known


def missing_flags(code: str) -> set[str]:
    """Flags that kungfu-run does not have."""
    commands = re.findall(r"\bkungfu-run(.*?)(?: python.*)?[`\n]", code)
    flags = {flag for command in commands for flag in re.findall(r" -([a-z][\w-]*)", command)}
    return flags - {flag.name for flag in FLAGS} - {"help"}


MISSING = [missing_files, missing_names, missing_variables, missing_flags]


@pytest.mark.parametrize("page", PAGES, ids=pages.name_of)
def test_what_a_page_names_is_there(page: Path) -> None:
    code = code_of(page.read_text())
    assert set().union(*(missing(code) for missing in MISSING)) == set()


@pytest.mark.parametrize("page", sorted((pages.DOCS / "project").glob("*.md")), ids=pages.name_of)
def test_sources_that_a_page_of_the_project_names_are_there(page: Path) -> None:
    assert missing_sources(code_of(page.read_text())) == set()


@pytest.mark.parametrize(
    ("missing", "text", "found"),
    [
        (missing_files, "`ops/base/status.h` and `ops/magic.h`", {"ops/magic.h"}),
        (missing_files, "ops/magic.h without code, `my/ops/magic.h`", set()),
        (missing_files, "```sh\npython examples/magic.py\n```\n", {"examples/magic.py"}),
        (missing_sources, "`status.h`, `base/status.h`, `plan/status.h`", {"plan/status.h"}),
        (missing_names, "`kf.rank()`, `kf.ops.wand(x)`, `kungfu_tf.info`", {".ops.wand"}),
        (missing_names, "```python\nx = kf.magic.wand\n```\n", {".magic.wand"}),
        (missing_variables, "`KUNGFU_SECRET`, `KUNGFU_MAGIC=1`", {"KUNGFU_MAGIC"}),
        (missing_flags, "`kungfu-run -np 2 -magic python a.py -wand`", {"magic"}),
    ],
)
def test_what_is_not_there_is_found(missing, text: str, found: set[str]) -> None:
    assert missing(code_of(text)) == found
