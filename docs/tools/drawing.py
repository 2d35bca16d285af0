"""Draws which room imports which, out of the imports themselves.

A room is a folder or module right under `kungfu_tf/`, or a folder anywhere under `ops/`. Above
stands what imports, below what is imported. An arrow that follows from others is left out.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

Rooms = Mapping[str, set[str]]  # what each one imports

_WIDTH, _HEIGHT, _GAP, _ROW = 132, 30, 18, 84
_MOST_IN_A_ROW = 7


def python_rooms(root: Path) -> dict[str, set[str]]:
    """Those of kungfu_tf/."""
    package = root / "kungfu_tf"
    names = {
        path.stem for path in package.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))
    }
    rooms: dict[str, set[str]] = {name: set() for name in names}
    for file in package.rglob("*.py"):
        here = file.relative_to(package).parts[0].removesuffix(".py")
        for parts in _imports(file, package):
            there = parts[1] if len(parts) > 1 and parts[1] in names else "__init__"
            rooms[here] |= {there} - {here}
    return rooms


def cpp_rooms(root: Path) -> dict[str, set[str]]:
    """Those of ops/."""
    rooms: dict[str, set[str]] = {}
    for file in [*(root / "ops").rglob("*.h"), *(root / "ops").rglob("*.cc")]:
        here = file.parent.relative_to(root / "ops").as_posix()
        found = re.findall(r'^\s*#\s*include\s*"ops/([\w/]+)/', file.read_text(), re.MULTILINE)
        rooms.setdefault(here, set()).update(set(found) - {here})
    return rooms


def _imports(file: Path, package: Path) -> Iterator[list[str]]:
    """The parts of each name of ours that a file imports."""
    folder = [package.name, *file.relative_to(package).parts[:-1]]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            module = [*base, *(node.module or "").split(".")]
            names = [[part for part in [*module, alias.name] if part] for alias in node.names]
        else:
            continue
        yield from (name for name in names if name[0] == package.name)


def of(rooms: Rooms, title: str) -> str:
    """An SVG."""
    reach = {room: _reached(rooms, room) for room in rooms}
    rows = _rows(rooms, reach)
    arrows = {
        (room, other)
        for room, others in rooms.items()
        for other in others
        if not any(other in reach[via] and room not in reach[via] for via in others - {other})
    }
    return _svg(_in_order(rows, arrows), arrows, title)


def _reached(rooms: Rooms, room: str) -> set[str]:
    found: set[str] = set()
    new = set(rooms[room])
    while new:
        found |= new
        new = {other for one in new for other in rooms[one]} - found
    return found


def _rows(rooms: Rooms, reach: Mapping[str, set[str]]) -> list[list[str]]:
    """From above to below. Rooms of a circle stand in one row."""
    levels: dict[str, int] = {}

    def level(room: str) -> int:
        if room not in levels:
            circle = {other for other in reach[room] if room in reach[other]} | {room}
            below = {other for one in circle for other in rooms[one]} - circle
            levels.update(dict.fromkeys(circle, 1 + max(map(level, below), default=-1)))
        return levels[room]

    rows: list[list[str]] = []
    for at in sorted({level(room) for room in rooms}, reverse=True):
        row = sorted(room for room in rooms if levels[room] == at)
        rows += [row[i : i + _MOST_IN_A_ROW] for i in range(0, len(row), _MOST_IN_A_ROW)]
    return rows


def _in_order(rows: list[list[str]], arrows: set[tuple[str, str]]) -> list[list[str]]:
    """The rows, so that arrows cross less: each room below the middle of those that import it."""
    place = {room: i - len(row) / 2 for row in rows for i, room in enumerate(row)}
    for _ in range(8):
        for row in rows:
            middle = {room: _middle(room, arrows, place) for room in row}
            row.sort(key=lambda room: (middle[room], room))
            place.update({room: i - (len(row) - 1) / 2 for i, room in enumerate(row)})
    return rows


def _middle(room: str, arrows: set[tuple[str, str]], place: Mapping[str, float]) -> float:
    near = [place[a] for a, b in arrows if b == room] + [place[b] for a, b in arrows if a == room]
    return sum(near) / len(near) if near else place[room]


def _svg(rows: list[list[str]], arrows: set[tuple[str, str]], title: str) -> str:
    width = max(map(len, rows)) * (_WIDTH + _GAP) + _GAP
    height = len(rows) * _ROW
    place = {
        room: ((width - len(row) * (_WIDTH + _GAP) + _GAP) / 2 + i * (_WIDTH + _GAP), at * _ROW + 8)
        for at, row in enumerate(rows)
        for i, room in enumerate(row)
    }
    paths = [_arrow(place[a], place[b]) for a, b in sorted(arrows)]
    boxes = [_box(room, *place[room]) for room in sorted(place)]
    name = html.escape(title, quote=True)
    return (
        f'<div><svg class="rooms" viewBox="0 0 {width} {height}" style="max-width: {width}px" '
        f'role="img" aria-label="{name}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor"/></marker>'
        f"</defs>{''.join(paths)}{''.join(boxes)}</svg></div>"
    )


def _arrow(a: tuple[float, float], b: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = a, b
    x, to_x = x + _WIDTH / 2, to_x + _WIDTH / 2
    y, to_y = (y + _HEIGHT, to_y) if to_y > y else (y, to_y + _HEIGHT)
    bend = (to_y - y) / 2
    return (
        f'<path d="M{x:g} {y:g}C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}" '
        'fill="none" stroke="currentColor" stroke-opacity=".45" marker-end="url(#tip)"/>'
    )


def _box(room: str, x: float, y: float) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="4"/>'
        f'<text x="{x + _WIDTH / 2:g}" y="{y + 20:g}">{html.escape(room)}</text>'
    )
