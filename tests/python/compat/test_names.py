"""What the packages of compat have, how they may be called, and what they say of the rest."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tables import NAMES, PACKAGES

from kungfu_tf import compat
from kungfu_tf.compat import missing

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.usefixtures("packages")

MODULES = [Path(compat.__file__).with_name(package) for package in PACKAGES]


class _AnyValue:
    def __getattr__(self, name: str) -> _AnyValue:
        return self


ANY_VALUE = _AnyValue()


def of(module: str) -> Any:
    return importlib.import_module(f"kungfu.{module}")


def parameters_of(value: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(value).parameters.values())


def parameters_in(signature: str) -> list[inspect.Parameter]:
    """Those of a row of the table. A default that is a name there may be any value here."""
    known = defaultdict(lambda: ANY_VALUE)
    return parameters_of(eval(f"lambda {signature[1:-1]}: None", {}, known))


def accepts(ours: list[inspect.Parameter], theirs: list[inspect.Parameter]) -> bool:
    """Whether every call that fits their parameters fits ours, and means the same.

    A function of theirs that takes anything passes it on: its parameters say nothing.
    """
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    same, further = ours[: len(theirs)], ours[len(theirs) :]
    if tuple(p.kind for p in theirs) == stars:
        same, theirs, further = [], [], ours
    return (
        [(p.name, p.kind) for p in same] == [(p.name, p.kind) for p in theirs]
        and all(b.default in (a.default, ANY_VALUE) for a, b in zip(same, theirs, strict=True))
        and all(p.default is not p.empty or p.kind in stars for p in further)
    )


def is_missing(name: str) -> bool:
    return any(name == why or name.startswith(f"{why}.") for why in missing.WHY)


@pytest.mark.parametrize("module", [name for name in NAMES if not is_missing(name)])
def test_names_and_signatures(module: str) -> None:
    if module.endswith("__main__"):
        assert importlib.util.find_spec(module) is not None
        return
    here = importlib.import_module(module)
    rows = {n: s for n, s in NAMES[module].items() if not is_missing(f"{module}.{n}")}
    assert [name for name in rows if not has(here, name)] == []
    refused = {
        name: (signature, str(inspect.signature(get(here, name))))
        for name, signature in rows.items()
        if signature and not accepts(parameters_here(here, name), parameters_in(signature))
    }
    assert refused == {}


def has(module: Any, name: str) -> bool:
    try:
        get(module, name)
    except AttributeError:
        return False
    return True


def get(module: Any, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), module)


def parameters_here(module: Any, name: str) -> list[inspect.Parameter]:
    """Of a function, of a class' constructor, or of a method without the object itself."""
    found = parameters_of(get(module, name))
    return found[1:] if "." in name else found


def test_every_module_can_be_imported_and_has_what_it_says() -> None:
    for folder in MODULES:
        for file in folder.rglob("*.py"):
            path = file.relative_to(folder.parent).with_suffix("").parts
            name = ".".join(part for part in path if part != "__init__")
            if not name.endswith("__main__"):
                module = importlib.import_module(name)
                assert all(hasattr(module, each) for each in getattr(module, "__all__", [])), name


def test_names_of_several_versions_of_tensorflow() -> None:
    compat = of("tensorflow.compat")
    assert sorted(name for name in vars(compat) if name.startswith("_tf_")) == compat.__all__


@pytest.mark.parametrize("name", missing.WHY)
def test_what_is_missing_is_named_with_its_reason(name: str) -> None:
    module, _, last = name.rpartition(".")
    with pytest.raises(ImportError) as imported:
        exec(f"from {module} import {last}")
    with pytest.raises(AttributeError) as asked:
        getattr(importlib.import_module(module), last)
    message = f"kungfu_tf.compat has no {name}: {missing.WHY[name]}"
    assert (str(imported.value), str(asked.value)) == (message, message)
    page = f"{name.split('.')[0]}.md"
    assert f"`{name}`" in (ROOT / "docs" / "migrate" / page).read_text()


def test_a_slip_of_the_pen() -> None:
    with pytest.raises(ImportError, match=r"knows no kungfu.python.run_barier; did you mean run_b"):
        exec("from kungfu.python import run_barier")
    with pytest.raises(ImportError, match=r"knows no kungfu.tensorflow.opts; did you mean ops"):
        exec("import kungfu.tensorflow.opts")
