"""Prints the public names and signatures of a checkout of KungFu, as a table of facts.

    python tests/upstream/names.py PATH > tests/python/compat/kungfu_names.json

The table has a module, a name and its parameters, and none of KungFu's code. A class stands with
the parameters of its constructor, and its methods follow it.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Names that begin with an underscore, and which KungFu's own programs use.
_USED = {
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


def table(checkout: Path) -> dict[str, dict[str, str]]:
    """The names of all modules but those for PyTorch."""
    packages = checkout / "srcs" / "python"
    found = {}
    for file in sorted((packages / "kungfu").rglob("*.py")):
        module = ".".join(file.relative_to(packages).with_suffix("").parts)
        module = module.removesuffix(".__init__")
        if not module.startswith("kungfu.torch"):
            names = _names_of(ast.parse(file.read_text()), file.name == "__init__.py")
            found[module] = {} if module.endswith("__main__") else dict(sorted(names))
    return found


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
        elif isinstance(node, ast.ImportFrom) and is_package and _is_of_kungfu(node):
            yield from ((n.name, _NO_SIGNATURE) for n in node.names if n.name[0] != "_")
        elif isinstance(node, ast.Assign):
            targets = [target for target in node.targets if isinstance(target, ast.Name)]
            yield from ((t.id, _NO_SIGNATURE) for t in targets if _is_public(t.id))


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, with those that depend on a version."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _top_level([*node.body, *node.orelse])
        else:
            yield node


def _names_of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    made = [_signature(each.args, 1) for each in methods if each.name == "__init__"]
    yield node.name, made[0] if made else _NO_SIGNATURE
    is_hook = any("hook" in ast.unparse(base).lower() for base in node.bases)
    for each in methods:
        # TensorFlow calls those of hooks.
        if not each.name.startswith("_") and not is_hook:
            yield f"{node.name}.{each.name}", _signature(each.args, 1)


def _is_public(name: str) -> bool:
    return name in _USED or not name.startswith("_")


def _is_of_kungfu(node: ast.ImportFrom) -> bool:
    return node.level > 0 or (node.module or "").startswith("kungfu")


def _signature(arguments: ast.arguments, skipped: int = 0) -> str:
    for each in ast.walk(arguments):
        if isinstance(each, ast.arg):
            each.annotation = None
    arguments.args = arguments.args[skipped:]
    return f"({ast.unparse(arguments)})"


if __name__ == "__main__":
    root = Path(sys.argv[1])
    print(json.dumps({"names": table(root), "flags": flags(root)}, indent=1))
