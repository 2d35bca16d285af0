"""Reads the tables of what is patched in Keras and TensorFlow, where neither is installed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from kungfu_tf.upstream.patches import Owner, Patch

PACKAGE = Path(__file__).parents[2] / "kungfu_tf"
# Each table with the package that it is about.
TABLES = (
    ("keras/patches.py", "KERAS_3", "Keras 3"),
    ("keras/patches.py", "KERAS_2", "Keras 2"),
    ("exchange/loss_scale.py", "KERAS_3", "Keras 3"),
    ("exchange/loss_scale.py", "KERAS_2", "Keras 2"),
    ("tf1/patches.py", "SESSION", "TensorFlow"),
    ("tf1/patches.py", "ESTIMATOR", "Estimator"),
)


def rows() -> dict[Patch, str]:
    """Each row of the tables once, with the packages that it is about."""
    found: dict[Patch, str] = {}
    names = {file: names_of(PACKAGE / file) for file, _, _ in TABLES}
    for file, table, package in TABLES:
        for patch in names[file][table]:
            found[patch] = f"{found[patch]}, {package}" if patch in found else package
    return found


def names_of(file: Path) -> dict[str, Any]:
    """What a module of tables defines. Of what it imports, only the types of rows are real."""
    names: dict[str, Any] = {"__name__": file.stem}
    body: list[ast.stmt] = []
    for node in ast.parse(file.read_text()).body:
        if _imports_what_may_be_missing(node):
            names.update((name, mock.Mock(name=name)) for name in _bound(node))
        else:
            body.append(node)
    names.update(Owner=Owner, Patch=Patch)
    exec(compile(ast.Module(body, type_ignores=[]), str(file), "exec"), names)
    return names


def _imports_what_may_be_missing(node: ast.stmt) -> bool:
    is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    return isinstance(node, ast.Import | ast.ImportFrom) and not is_future


def _bound(node: Any) -> Iterator[str]:
    """The names that an import makes."""
    return ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
