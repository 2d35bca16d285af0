"""Who may know whom: the layers of `ops/` and of `kungfu_tf`, checked in the sources themselves.

A new folder needs a place in a table below; a new edge needs a reason to change one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# From left to right: each may know those to its right. Those in one set do not know each other.
Layers = Sequence[set[str]]

# A folder of `ops/`, or a folder in one: each that holds sources has a place of its own.
CPP_LAYERS: Layers = (
    {"tensorflow"},
    {"c_api"},
    {"peer"},
    {"elastic"},
    {"collective", "store"},
    {"router"},
    {"transport/choice"},
    {"transport/shm"},
    {"transport/socket"},
    {"transport"},
    {"plan"},
    {"memory", "monitor"},
    {"base"},
)

# A module, a folder, or a folder in one; what lies deeper in `compat` belongs to it.
PYTHON_LAYERS: Layers = (
    {"compat"},
    {"info"},
    {"__init__"},
    {"callbacks", "compression", "elastic", "hooks", "initializer", "layers", "ray", "spark"},
    {"keras/elastic"},
    {"keras", "optimizers", "tf1"},
    {"keras/fit", "tf1/session"},
    {"keras/verify", "tf1/verify"},
    {"keras/callbacks", "keras/layers", "keras/saving", "tf1/hooks"},
    {"exchange", "policy"},
    {"verification"},
    {"data", "membership", "monitor", "replicas", "variables"},
    {"engines"},
    {"function_launch"},
    {"launcher"},
    {"launcher/command"},
    {"launcher/deciding"},
    {"launcher/document"},
    {"launcher/output"},
    {"launcher/processes"},
    {"launcher/placing"},
    {"launcher/channels"},
    {"launcher/options", "ops"},
    {"groups"},
    {"peer"},
    {"native"},
    {"environments"},
    {"config", "links"},
    {"context", "topology", "upstream"},
    {"_version", "errors"},
)

# Narrower than the table. ops/tensorflow is a library of its own: between it and the core lies the
# C interface.
CPP_INTERFACE = "ops/c_api/kungfu*.h"
# What only some may include. The globals: who is no composition root is given its peer and arena.
CPP_PRIVATE = {
    "ops/peer/default_*.h": {"peer", "c_api"},
    "ops/tensorflow/*.h": {"tensorflow"},
}

TENSORFLOW_HEADERS = {"Eigen", "absl", "google", "mlir", "tensorflow", "tsl", "unsupported", "xla"}
TENSORFLOW_PACKAGES = {"keras", "tensorflow", "tf_keras"}
PYTHON_WITHOUT_TENSORFLOW = {
    *("_version", "config", "engines", "environments", "errors", "function_launch", "links"),
    *("peer", "ray", "spark", "topology"),
} | {room for rooms in PYTHON_LAYERS for room in rooms if room.startswith("launcher")}


def right_of(layers: Layers) -> dict[str, set[str]]:
    """What each member of the table may know."""
    known: dict[str, set[str]] = {}
    below: set[str] = set()
    for layer in reversed(layers):
        known.update({name: set(below) for name in layer})
        below |= layer
    return known


def cpp_problems(root: Path) -> list[str]:
    """Includes under `ops/` and `tests/cpp/` that should not be there, one line each."""
    return [
        f"{file.relative_to(root)}:{line}: {problem}"
        for folder in ("ops", "tests/cpp")
        for file in sorted((root / folder).rglob("*"))
        if file.suffix in {".h", ".cc"}
        for line, opening, include in includes_of(file)
        if (problem := cpp_problem(root, file.relative_to(root), opening, include))
    ]


def includes_of(file: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, opening delimiter and path of each include."""
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if match := re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line):
            yield number, match[1], match[2]


def cpp_problem(root: Path, file: Path, opening: str, include: str) -> str | None:
    """What is wrong with `file` including `include`."""
    source = room_of(file) if file.parts[0] == "ops" else "tests"
    first = Path(include).parts[0]
    if first in TENSORFLOW_HEADERS:
        return None if source == "tensorflow" else f"{source} includes TensorFlow's {include}"
    if opening == "<":
        return f"{include} is ours: quotes, please" if first in {"ops", "tests"} else None
    if first not in {"ops", "tests"} or not (root / include).is_file():
        return f"{include} is not a path from the repository's root"
    if first == "tests" or source == "tests":
        allowed = source == "tests" and not private_to(include)
    elif source not in right_of(CPP_LAYERS):
        return f"{source} has no place in the table of layers"
    else:
        allowed = cpp_allows(source, include)
    return None if allowed else f"{source} includes {include}"


def room_of(file: Path) -> str:
    """The folder of `file`, a path from the root, as the table names it."""
    return file.parent.relative_to("ops").as_posix()


def private_to(include: str) -> set[str]:
    """The rooms that alone may include this header; none: it is not private."""
    return {
        room
        for pattern, rooms in CPP_PRIVATE.items()
        if Path(include).match(pattern)
        for room in rooms
    }


def cpp_allows(source: str, include: str) -> bool:
    """Whether room `source` of the table may include this header of `ops/`."""
    target = room_of(Path(include))
    if source == "tensorflow" != target:
        return Path(include).match(CPP_INTERFACE)
    return target in right_of(CPP_LAYERS)[source] | {source} and source in (
        private_to(include) or {source}
    )


def python_problems(root: Path) -> list[str]:
    """Imports in `kungfu_tf/` that should not be there, one line each."""
    package = root / "kungfu_tf"
    return [
        f"{file.relative_to(root)}:{line}: {problem}"
        for file in sorted(package.rglob("*.py"))
        for line, module in imports_of(package, file)
        if (problem := python_problem(python_room_of(parts_of(package, file)), module, package))
    ]


def parts_of(package: Path, file: Path) -> list[str]:
    """The path of `file` in `package`, without its ending."""
    return list(file.relative_to(package).with_suffix("").parts)


def python_room_of(parts: Sequence[str]) -> str:
    """The room of the module with this path in the package: its folder, or itself at the top."""
    if parts[0] == "compat":
        return "compat"
    return "/".join(parts[:-1]) or parts[0]


def imports_of(package: Path, file: Path) -> Iterator[tuple[int, str]]:
    """Line number and absolute name of each module, or name within one, that is imported anywhere.

    `from a import b` is `a.b`: whether b is a module is for the reader to find out.
    """
    here = [package.name, *file.relative_to(package).parts]
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def python_problem(source: str, imported: str, package: Path) -> str | None:
    """What is wrong with room `source` of `package` importing `imported`."""
    known = right_of(PYTHON_LAYERS)
    if source not in known:
        return f"{source} has no place in the table of layers"
    top, *rest = imported.split(".")
    if top in TENSORFLOW_PACKAGES and source in PYTHON_WITHOUT_TENSORFLOW:
        return f"{source} imports {top}"
    if top != package.name:
        return None
    target = python_room_of(path_of(package, rest))
    return None if target in known[source] | {source} else f"{source} imports {target}"


def path_of(package: Path, names: list[str]) -> list[str]:
    """The path of the module that dotted names lead to: what is no module is a name in one."""
    for length in range(len(names), 0, -1):
        path = package.joinpath(*names[:length])
        if path.with_suffix(".py").is_file():
            return names[:length]
        if path.is_dir():
            return [*names[:length], "__init__"]
    return ["__init__"]


def test_cpp_layers() -> None:
    assert cpp_problems(ROOT) == []


def test_python_layers() -> None:
    assert python_problems(ROOT) == []


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


CPP_FILES = dict.fromkeys(
    (
        "ops/base/status.h",
        "ops/c_api/kungfu.h",
        "ops/collective/session.h",
        "ops/peer/default_peer.h",
        "ops/peer/peer.h",
        "ops/plan/graph.h",
        "ops/tensorflow/kernel_util.h",
        "ops/transport/event_loop.h",
        "ops/transport/shm/ring.h",
        "ops/transport/socket/stream.h",
        "tests/cpp/testing.h",
    ),
    "",
)


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("ops/base/status.cc", '"ops/base/status.h"'),
        ("ops/plan/graph.cc", '"ops/base/status.h"'),
        ("ops/transport/socket/tcp.cc", '"ops/plan/graph.h"'),
        ("ops/transport/socket/tcp.cc", '"ops/transport/event_loop.h"'),
        ("ops/transport/shm/pipe.cc", '"ops/transport/socket/stream.h"'),
        ("ops/transport/shm/pipe.cc", '"ops/transport/shm/ring.h"'),
        ("ops/router/router.cc", '"ops/transport/shm/ring.h"'),
        ("ops/c_api/kungfu.cc", '"ops/peer/default_peer.h"'),
        ("ops/tensorflow/ops.cc", '"ops/c_api/kungfu.h"'),
        ("ops/tensorflow/ops.cc", '"ops/tensorflow/kernel_util.h"'),
        ("ops/tensorflow/ops.cc", '"tensorflow/core/framework/op.h"'),
        ("ops/base/status.cc", "<vector>"),
        ("tests/cpp/plan/graph_test.cc", '"ops/plan/graph.h"'),
        ("tests/cpp/plan/graph_test.cc", '"tests/cpp/testing.h"'),
    ],
)
def test_cpp_allows(tmp_path: Path, file: str, include: str) -> None:
    write(tmp_path, {**CPP_FILES, file: f"#include {include}\n"})
    assert cpp_problems(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "include", "problem"),
    [
        ("ops/base/status.cc", '"ops/plan/graph.h"', "base includes ops/plan/graph.h"),
        ("ops/store/p2p.cc", '"ops/collective/session.h"', "store includes ops/collective"),
        ("ops/transport/socket/tcp.cc", '"ops/peer/peer.h"', "transport/socket includes ops/peer"),
        ("ops/transport/wire.cc", '"ops/transport/socket/stream.h"', "transport includes ops/tra"),
        ("ops/transport/socket/tcp.cc", '"ops/transport/shm/ring.h"', "transport/socket includes"),
        ("ops/magic/wand.cc", '"ops/base/status.h"', "magic has no place"),
        ("ops/transport/magic/wand.cc", '"ops/base/status.h"', "transport/magic has no place"),
        ("ops/base/status.cc", '"ops/tensorflow/kernel_util.h"', "base includes ops/tensorflow"),
        ("ops/tensorflow/ops.cc", '"ops/base/status.h"', "tensorflow includes ops/base/status.h"),
        ("ops/elastic/control.cc", '"ops/peer/default_peer.h"', "elastic includes ops/peer"),
        ("tests/cpp/peer/peer_test.cc", '"ops/peer/default_peer.h"', "tests includes ops/peer"),
        ("tests/cpp/peer/peer_test.cc", '"ops/tensorflow/kernel_util.h"', "tests includes ops/ten"),
        ("ops/base/status.cc", '"tensorflow/core/status.h"', "base includes TensorFlow's"),
        ("ops/base/status.cc", "<absl/status/status.h>", "base includes TensorFlow's"),
        ("tests/cpp/base/status_test.cc", '"absl/status.h"', "tests includes TensorFlow's"),
        ("ops/base/status.cc", '"tests/cpp/testing.h"', "base includes tests/cpp/testing.h"),
        ("ops/base/status.cc", '"status.h"', "is not a path from the repository's root"),
        ("ops/base/status.cc", '"../base/status.h"', "is not a path from the repository's root"),
        ("ops/base/status.cc", '"ops/base/missing.h"', "is not a path from the repository's root"),
        ("ops/base/status.cc", "<ops/base/status.h>", "quotes, please"),
    ],
)
def test_cpp_rejects(tmp_path: Path, file: str, include: str, problem: str) -> None:
    write(tmp_path, {**CPP_FILES, file: f"#pragma once\n#include {include}\n"})
    (found,) = cpp_problems(tmp_path)
    assert found.startswith(f"{file}:2: ")
    assert problem in found


PYTHON_FILES = dict.fromkeys(
    (
        "kungfu_tf/__init__.py",
        "kungfu_tf/callbacks/__init__.py",
        "kungfu_tf/compat/__init__.py",
        "kungfu_tf/errors.py",
        "kungfu_tf/exchange/wrap.py",
        "kungfu_tf/keras/__init__.py",
        "kungfu_tf/keras/patches.py",
        "kungfu_tf/keras/fit/__init__.py",
        "kungfu_tf/keras/fit/run.py",
        "kungfu_tf/launcher/__init__.py",
        "kungfu_tf/launcher/command/run.py",
        "kungfu_tf/native/__init__.py",
        "kungfu_tf/native/libraries.py",
        "kungfu_tf/ops/__init__.py",
        "kungfu_tf/ops/collective.py",
        "kungfu_tf/optimizers/__init__.py",
        "kungfu_tf/peer.py",
        "kungfu_tf/upstream/__init__.py",
    ),
    "",
)


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("kungfu_tf/ops/group.py", "from kungfu_tf import errors, peer"),
        ("kungfu_tf/ops/group.py", "from kungfu_tf.native import libraries"),
        ("kungfu_tf/ops/group.py", "from kungfu_tf.native.libraries import core"),
        ("kungfu_tf/ops/group.py", "from kungfu_tf.ops import collective"),
        ("kungfu_tf/ops/group.py", "from . import collective"),
        ("kungfu_tf/ops/group.py", "from .. import peer"),
        ("kungfu_tf/ops/group.py", "import tensorflow as tf"),
        ("kungfu_tf/launcher/command/run.py", "import kungfu_tf.errors"),
        ("kungfu_tf/launcher/command/run.py", "from os import errors, ops"),
        ("kungfu_tf/compat/ops.py", "import kungfu_tf as kf"),
        ("kungfu_tf/compat/kungfu/deep/ops.py", "import kungfu_tf as kf"),
        ("kungfu_tf/keras/patches.py", "from kungfu_tf.keras.fit import run"),
        ("kungfu_tf/optimizers/sgd.py", "from kungfu_tf.exchange.wrap import wrap"),
    ],
)
def test_python_allows(tmp_path: Path, file: str, statement: str) -> None:
    write(tmp_path, {**PYTHON_FILES, file: f"{statement}\n"})
    assert python_problems(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "statement", "problem"),
    [
        ("kungfu_tf/peer.py", "from kungfu_tf import ops", "peer imports ops"),
        ("kungfu_tf/peer.py", "from kungfu_tf.ops.collective import x", "peer imports ops"),
        ("kungfu_tf/peer.py", "import kungfu_tf.ops.collective", "peer imports ops"),
        ("kungfu_tf/peer.py", "from .ops import collective", "peer imports ops"),
        ("kungfu_tf/ops/group.py", "from ..optimizers import x", "ops imports optimizers"),
        ("kungfu_tf/ops/group.py", "from kungfu_tf import rank", "ops imports __init__"),
        ("kungfu_tf/ops/group.py", "import kungfu_tf", "ops imports __init__"),
        ("kungfu_tf/data/shard.py", "from kungfu_tf import callbacks", "data imports callbacks"),
        ("kungfu_tf/upstream/hook.py", "from kungfu_tf import keras", "upstream imports keras"),
        ("kungfu_tf/keras/fit/run.py", "from kungfu_tf.keras import patches", "imports keras"),
        ("kungfu_tf/tf1/session/a.py", "from kungfu_tf.keras.fit import run", "imports keras/fit"),
        ("kungfu_tf/__init__.py", "from kungfu_tf import compat", "__init__ imports compat"),
        (
            "kungfu_tf/launcher/options/a.py",
            "from kungfu_tf import ops",
            "launcher/options imports",
        ),
        ("kungfu_tf/launcher/command/run.py", "import tensorflow.compat.v1", "imports tensorflow"),
        ("kungfu_tf/errors.py", "from keras import layers", "errors imports keras"),
        ("kungfu_tf/magic.py", "import os", "magic has no place"),
        ("kungfu_tf/keras/magic/wand.py", "import os", "keras/magic has no place"),
    ],
)
def test_python_rejects(tmp_path: Path, file: str, statement: str, problem: str) -> None:
    write(tmp_path, {**PYTHON_FILES, file: f"def hidden():\n    {statement}\n"})
    (found,) = python_problems(tmp_path)
    assert found.startswith(f"{file}:2: ")
    assert problem in found
