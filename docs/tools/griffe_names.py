"""An extension of Griffe, which reads the docstrings: see mkdocs.yml."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import griffe


class PublicNames(griffe.Extension):
    """A function is not hidden by the module of the same name that defines it."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when all of a package is known."""
        for module in list(_modules(pkg)):
            for name in map(str, module.exports or ()):
                found = module.members.get(name)
                if isinstance(found, griffe.Module) and name in found.members:
                    module.set_member(name, griffe.Alias(name, found.members[name], parent=module))


def _modules(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for member in list(module.members.values()):
        if isinstance(member, griffe.Module):
            yield from _modules(member)
