"""What pages show of the sources: flags, variables, changes, patches, rooms and their drawings."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from docs.tools import drawing, patch_tables, topology_pictures
from kungfu_tf import launcher
from kungfu_tf.config import Setting
from kungfu_tf.launcher.options.flags import FLAGS
from kungfu_tf.native import environment
from kungfu_tf.upstream.patches import Patch

ROOT = Path(__file__).parents[2]
_BY_LAUNCHER = "; set by the launcher"


def everything() -> dict[str, str]:
    """Markdown by the name by which a page asks for it."""
    return {
        "changes": changes((ROOT / "CHANGELOG.md").read_text()),
        "drawing of C++": drawing.of(drawing.cpp_rooms(ROOT), "The folders of ops/"),
        "drawing of Python": drawing.of(drawing.python_rooms(ROOT), "The rooms of kungfu_tf/"),
        "flags": flags(),
        "names in use": patches(patch_tables.rows(), patched=False),
        "patches": patches(patch_tables.rows(), patched=True),
        "rooms of Python": first_table((ROOT / "kungfu_tf" / "README.md").read_text()),
        "pictures of topologies": topology_pictures.table(),
        "rooms of the launcher": rooms(launcher.__doc__ or ""),
        "variables": settings(s for s in environment.settings() if not s.internal),
        "variables of the launcher": settings(s for s in environment.settings() if s.internal),
    }


def flags() -> str:
    """The flags of kungfu-run, each with an anchor."""
    rows = [
        (
            f'<a id="{flag.name}"></a>`-{flag.name}{" " if flag.argument else ""}{flag.argument}`',
            flag.help,
        )
        for flag in FLAGS
    ]
    return _table(("flag", "meaning"), rows)


def settings(given: Iterable[Setting[Any]]) -> str:
    """Environment variables, each with an anchor, what it may be, its default and its meaning."""
    rows = [
        (
            f'<a id="{setting.name}"></a>`{setting.name}`',
            str(setting.type),
            _default(setting),
            setting.meaning,
        )
        for setting in sorted(given, key=lambda setting: setting.name)
    ]
    return _table(("variable", "value", "default", "meaning"), rows)


def patches(rows: Mapping[Patch, str], *, patched: bool) -> str:
    """Rows of the tables of patches, with the packages that they are about.

    Args:
        rows: Of patch_tables.
        patched: Whether those that are patched, or those that are only called or overridden.
    """
    cells = [
        (f"`{patch.label}`", package, patch.purpose, "needed" if patch.is_needed else "comfort")
        for patch, package in rows.items()
        if (patch.ours is not None) == patched
    ]
    return _table(("name", "of", "for", "it is"), cells)


def first_table(text: str) -> str:
    """The first table of a page."""
    rows = itertools.dropwhile(lambda line: not line.startswith("|"), text.splitlines())
    return "\n".join(itertools.takewhile(lambda line: line.startswith("|"), rows))


def rooms(docstring: str) -> str:
    """The rooms of a package, which its docstring has as the first list with two columns."""
    paragraphs = [paragraph.splitlines() for paragraph in docstring.split("\n\n")]
    lists = ([re.fullmatch(r"(\w+) {2,}(.+)", line) for line in lines] for lines in paragraphs)
    first = next(found for found in lists if all(found))
    return _table(("room", "has"), [(f"`{row[1]}/`", row[2]) for row in first if row])


def changes(text: str) -> str:
    """The changelog without its title, for a page of docs/project/."""
    return text.partition("\n")[2].replace("](docs/project/", "](")


def _default(setting: Setting[Any]) -> str:
    if not setting.default or setting.secret:
        return ""
    return f"`{setting.default}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [
        head,
        tuple("---" for _ in head),
        *((first, *map(_cell, rest)) for first, *rest in rows),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(text: str) -> str:
    """Text in which nothing is markup but code."""
    parts = text.split("`")
    parts[::2] = [html.escape(part, quote=False).replace("|", "&#124;") for part in parts[::2]]
    return "`".join(parts)
