"""Reads what a module of cases declares, without importing it."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import itertools
import os
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Case:
    """One call of one function of a module of cases."""

    function: str
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        """What pytest shows, "sum[float32-mean]"."""
        name = self.function.removeprefix("case_")
        values = "-".join(str(value) for value in self.arguments.values())
        return f"{name}[{values}]" if values else name


@dataclasses.dataclass(frozen=True)
class Job:
    """How a module wants to be launched."""

    module: Path
    np: int
    id: str
    env: dict[str, str | None]
    flags: list[str]
    timeout: float
    cases: list[Case]


def read_jobs(module: Path) -> list[Job]:
    """The jobs that `module` declares, each with its cases in the order of the file.

    Raises:
        ValueError: something that must be a literal is none, or JOBS names an unknown case.
    """
    tree = ast.parse(module.read_text(), filename=str(module))
    literals: dict[str, Any] = {}
    cases: list[Case] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                literals[node.targets[0].id] = _evaluate(node.value, literals)
            except ValueError:
                continue  # an ordinary assignment
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("case_"):
            cases += _cases_of(node, literals)
    if os.environ.get("TF_USE_LEGACY_KERAS") == "1" and not literals.get("NEEDS_KERAS", True):
        return []
    if "NEEDS" in literals and importlib.util.find_spec(literals["NEEDS"]) is None:
        return []
    if "JOBS" not in literals:
        raise ValueError(f"{module.name}: JOBS is missing or no literal")
    return [
        _job(module, cases, literals.get("TIMEOUT", 100), **declared)
        for declared in literals["JOBS"]
    ]


def _job(
    module: Path,
    all_cases: list[Case],
    timeout: float,
    *,
    np: int,
    id: str | None = None,
    env: dict[str, str | None] | None = None,
    flags: list[str] | None = None,
    cases: list[str] | None = None,
) -> Job:
    unknown = set(cases or ()) - {case.function.removeprefix("case_") for case in all_cases}
    if unknown:
        raise ValueError(f"{module.name}: JOBS names cases that do not exist: {sorted(unknown)}")
    chosen = [
        case for case in all_cases if cases is None or case.function.removeprefix("case_") in cases
    ]
    return Job(module, np, id or f"np{np}", env or {}, flags or [], timeout, chosen)


def _cases_of(node: ast.FunctionDef, literals: dict[str, Any]) -> list[Case]:
    parameters: dict[str, Any] = {}
    for decorator in node.decorator_list:
        if not (isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "each"):
            continue
        for keyword in decorator.keywords:
            assert keyword.arg is not None, f"line {decorator.lineno}: each(**…) is no literal"
            parameters[keyword.arg] = _evaluate(keyword.value, literals)
    return [
        Case(node.name, dict(zip(parameters, values, strict=True)))
        for values in itertools.product(*parameters.values())
    ]


def _evaluate(node: ast.expr, literals: dict[str, Any]) -> Any:
    """A literal, the name of one, a sum of them, or a list or dict of these.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(node, ast.Name) and node.id in literals:
        return literals[node.id]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _evaluate(node.left, literals) + _evaluate(node.right, literals)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_evaluate(element, literals) for element in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        keys = [ast.literal_eval(key) for key in node.keys]
        return dict(zip(keys, (_evaluate(value, literals) for value in node.values), strict=True))
    return ast.literal_eval(node)
