"""Finds public names that the reference does not explain: `python -m docs.tools.api build/docs`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "kungfu_tf"
# Modules that its `__all__` does not name.
_APART = ("compat", "ray", "spark")


def exported(source: str) -> list[str]:
    """What `__all__` lists in a module."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def public_names() -> dict[str, list[str]]:
    """The names of each public module, by its own."""
    package = ROOT / PACKAGE
    found = {PACKAGE: exported((package / "__init__.py").read_text())}
    for name in [*found[PACKAGE], *_APART]:
        for file in (package / name / "__init__.py", package / f"{name}.py"):
            if file.exists() and (names := exported(file.read_text())):
                found[f"{PACKAGE}.{name}"] = names
    return found


def missing(site: Path) -> Iterator[str]:
    """A line for each public name that no page of the reference explains."""
    modules = public_names()
    for module, names in modules.items():
        page = site / "reference" / "api" / f"{module.partition('.')[2] or 'index'}.html"
        anchors = set(re.findall(r'id="([^"]+)"', page.read_text())) if page.exists() else set()
        for name in names:
            full = f"{module}.{name}"
            if full not in modules and full not in anchors:
                yield f"{page.relative_to(site)}: {full} is missing"


def main() -> int:
    """Prints them. Returns the exit code."""
    problems = list(missing(Path(sys.argv[1])))
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
