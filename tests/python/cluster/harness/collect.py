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

    module: Path
    function: str
    arguments: dict[str, Any]
    timeout: float
    exhaustive: bool = False

    @property
    def name(self) -> str:
        """What pytest shows, "sum[float32-mean]"."""
        name = self.function.removeprefix("case_")
        values = "-".join(str(value) for value in self.arguments.values())
        return f"{name}[{values}]" if values else name


@dataclasses.dataclass(frozen=True)
class Launch:
    """How peers are started. Cases that want the same share them."""

    np: int
    env: dict[str, str | None]
    flags: list[str]
    alone: Path | None  # the module that shares its peers with no other


@dataclasses.dataclass(frozen=True)
class Job:
    """Cases of a module, in the order of the file, and how their peers are started."""

    id: str
    launch: Launch
    cases: list[Case]


def read_jobs(module: Path) -> list[Job]:
    """The jobs that `module` declares, each with its cases in the order of the file.

    Raises:
        ValueError: something that must be a literal is none, or JOBS names an unknown case.
    """
    tree = ast.parse(module.read_text(), filename=str(module))
    literals: dict[str, Any] = {}
    functions: list[ast.FunctionDef] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                literals[node.targets[0].id] = _evaluate(node.value, literals)
            except ValueError:
                continue  # an ordinary assignment
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("case_"):
            functions.append(node)
    if os.environ.get("TF_USE_LEGACY_KERAS") == "1" and not literals.get("NEEDS_KERAS", True):
        return []
    if "NEEDS" in literals and importlib.util.find_spec(literals["NEEDS"]) is None:
        return []
    if "JOBS" not in literals:
        raise ValueError(f"{module.name}: JOBS is missing or no literal")
    cases = [
        Case(
            *(module, function.name, arguments, literals.get("TIMEOUT", 100)),
            _is_exhaustive(function, arguments, literals),
        )
        for function in functions
        for arguments in _calls_of(function, literals)
    ]
    return [_job(module, cases, **declared) for declared in literals["JOBS"]]


def _job(
    module: Path,
    all_cases: list[Case],
    *,
    np: int,
    id: str | None = None,
    env: dict[str, str | None] | None = None,
    flags: list[str] | None = None,
    cases: list[str] | None = None,
    alone: bool = False,
) -> Job:
    unknown = set(cases or ()) - {case.function.removeprefix("case_") for case in all_cases}
    if unknown:
        raise ValueError(f"{module.name}: JOBS names cases that do not exist: {sorted(unknown)}")
    chosen = [
        case for case in all_cases if cases is None or case.function.removeprefix("case_") in cases
    ]
    return Job(
        id or f"np{np}", Launch(np, env or {}, flags or [], module if alone else None), chosen
    )


def _calls_of(node: ast.FunctionDef, literals: dict[str, Any]) -> list[dict[str, Any]]:
    """The arguments of each case that a function makes."""
    parameters: dict[str, Any] = {}
    for given in _decorated(node, "each", literals):
        parameters |= given
    return [
        dict(zip(parameters, values, strict=True))
        for values in itertools.product(*parameters.values())
    ]


def _is_exhaustive(
    node: ast.FunctionDef, arguments: dict[str, Any], literals: dict[str, Any]
) -> bool:
    """Whether only `make test-all` runs the case that a function makes with these arguments."""
    marks = _decorated(node, "exhaustive", literals)
    return bool(marks) and not any(
        unless and all(arguments[name] in values for name, values in unless.items())
        for unless in marks
    )


def _decorated(
    node: ast.FunctionDef, decorator: str, literals: dict[str, Any]
) -> list[dict[str, Any]]:
    """What each of a function's decorators of this name was given."""
    found = []
    for call in node.decorator_list:
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == decorator:
            given: dict[str, Any] = {}
            for keyword in call.keywords:
                assert keyword.arg is not None, (
                    f"line {node.lineno}: {decorator}(**…) is no literal"
                )
                given[keyword.arg] = _evaluate(keyword.value, literals)
            found.append(given)
    return found


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
        values: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                values += _evaluate(element.value, literals)
            else:
                values.append(_evaluate(element, literals))
        return values
    if isinstance(node, ast.Dict) and None not in node.keys:
        keys = [ast.literal_eval(key) for key in node.keys]
        return dict(zip(keys, (_evaluate(value, literals) for value in node.values), strict=True))
    return ast.literal_eval(node)
