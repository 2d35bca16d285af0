"""Prints the public names and signatures of a checkout of one of them, as a table of facts.

    python tests/upstream/names.py PATH > tests/python/compat/kungfu_names.json

The table has a module, a name and its parameters, and none of the code there. A class stands with
the parameters of its constructor, and its methods follow it.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Names that begin with an underscore, and which KungFu's or Horovod's own programs use.
_USED = {
    "_executing_eagerly",
    "_get_cuda_index",
    "_log_event",
    "_since_job_start",
    "_since_proc_start",
    "_tf_assign",
    "_tf_hook",
    "_tf_major_version",
    "_tf_mod",
    "_tf_optimizer",
}
_NO_SIGNATURE = ""

Table = dict[str, dict[str, str]]


# The modules of Horovod that programs for TensorFlow import.
_OF_HOROVOD = re.compile(
    r"horovod(\.runner|(\.tensorflow)?\.keras(\.callbacks|\.elastic)?"
    r"|\.tensorflow(\.compression|\.elastic|\.functions|\.mpi_ops|\.sync_batch_norm)?)?"
)
# Those of BlueFog: what its functions say of processes is in a class of `basics`.
_OF_BLUEFOG = re.compile(r"bluefog\.(tensorflow(\.mpi_ops|\.optimizers)?|common\.topology_util)")
# TensorFlow and Keras call the methods of classes that are derived from these.
_CALLED = ("hook", "batchnormalization")


def table(packages: Path, package: str, is_wanted: Callable[[str], object]) -> Table:
    """The names of the wanted modules.

    Args:
        packages: The folder that has the package.
        package: Its name.
        is_wanted: Whether a module is.
    """
    found = {}
    for file in sorted((packages / package).rglob("*.py")):
        module = ".".join(file.relative_to(packages).with_suffix("").parts)
        module = module.removesuffix(".__init__")
        if is_wanted(module):
            names = _names_of(ast.parse(file.read_text()), file.name == "__init__.py")
            found[module] = {} if module.endswith("__main__") else dict(sorted(names))
    return found


def of_kungfu(checkout: Path) -> dict[str, object]:
    """The facts of KungFu: all modules but those for PyTorch."""
    names = table(
        checkout / "srcs" / "python", "kungfu", lambda name: not name.startswith("kungfu.torch")
    )
    return {"names": names, "flags": flags(checkout)}


def of_horovod(checkout: Path) -> dict[str, object]:
    """The facts of Horovod: the modules for TensorFlow, and the flags of horovodrun."""
    names = table(checkout, "horovod", _OF_HOROVOD.fullmatch)
    source = (checkout / "horovod" / "runner" / "launch.py").read_text()
    given = re.findall(r"add_argument\(((?:\s*'--?[\w-]+',)+)", source)
    found = {flag for words in given for flag in re.findall(r"'(--?[\w-]+)'", words)}
    return {"names": names, "flags": sorted(found)}


def of_bluefog(checkout: Path) -> dict[str, object]:
    """The facts of BlueFog: the modules for TensorFlow, and the graphs."""
    return {"names": table(checkout, "bluefog", _OF_BLUEFOG.fullmatch)}


def flags(checkout: Path) -> list[str]:
    """The flags of kungfu-run."""
    source = (checkout / "srcs" / "go" / "kungfu" / "runner" / "flags.go").read_text()
    return sorted(re.findall(r'flag\.\w*Var\([^"]*"([\w-]+)"', source))


def _names_of(tree: ast.Module, is_package: bool) -> Iterator[tuple[str, str]]:
    for node in _top_level(tree.body):
        if isinstance(node, ast.FunctionDef) and _is_public(node.name):
            yield node.name, _signature(node.args)
        elif isinstance(node, ast.ClassDef) and _is_public(node.name):
            yield from _names_of_class(node)
        elif isinstance(node, ast.ImportFrom) and is_package and _is_own(node):
            yield from ((n.name, _NO_SIGNATURE) for n in node.names if _is_public(n.name))
        elif isinstance(node, ast.Assign):
            targets = [target for target in node.targets if isinstance(target, ast.Name)]
            yield from ((t.id, _NO_SIGNATURE) for t in targets if _is_public(t.id))


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, with those that depend on a version."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _top_level([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _top_level([*node.body, *(n for h in node.handlers for n in h.body)])
        else:
            yield node


def _names_of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    made = [_signature(each.args, 1) for each in methods if each.name == "__init__"]
    yield node.name, made[0] if made else _NO_SIGNATURE
    bases = " ".join(map(ast.unparse, node.bases)).lower()
    is_called = any(name in bases for name in _CALLED)
    for each in methods:
        if not each.name.startswith("_") and not is_called:
            yield f"{node.name}.{each.name}", _signature(each.args, 1)


def _is_public(name: str) -> bool:
    return name in _USED or not name.startswith("_")


def _is_own(node: ast.ImportFrom) -> bool:
    return node.level > 0 or (node.module or "").startswith(("kungfu", "horovod", "bluefog"))


def _signature(arguments: ast.arguments, skipped: int = 0) -> str:
    for each in ast.walk(arguments):
        if isinstance(each, ast.arg):
            each.annotation = None
    arguments.args = arguments.args[skipped:]
    return f"({ast.unparse(arguments)})"


if __name__ == "__main__":
    root = Path(sys.argv[1])
    kinds = {"horovod": of_horovod, "bluefog": of_bluefog}
    known = [facts for package, facts in kinds.items() if (root / package).is_dir()]
    print(json.dumps((known or [of_kungfu])[0](root), indent=1))
