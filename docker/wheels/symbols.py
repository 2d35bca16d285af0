"""The symbols that a library defines, and the versions of symbols that it needs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

TIMEOUT = 60.0

# Of `readelf`: number, value, size, kind, binding, visibility, section, name@version. With @@ the
# version is the default one.
_DEFINED = re.compile(
    r"^ *\d+: [0-9a-f]+ +(?P<size>\w+) (?P<kind>\w+) +(?:GLOBAL|WEAK|UNIQUE) +DEFAULT +"
    r"(?!UND)\w+ (?P<name>[^@\s]+)(?P<at>@@?)(?P<version>[A-Z]+_[0-9.]+)$",
    re.MULTILINE,
)
# Of `objdump`: hash, flags, index, version.
_NEEDED = re.compile(r"^ +0x[0-9a-f]+ 0x[0-9a-f]+ \d+ (?P<version>[A-Z]+_[0-9.]+)$", re.MULTILINE)


class Version(NamedTuple):
    """GLIBC_2.17 is of the set GLIBC, with the numbers 2 and 17."""

    set: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.set}_{'.'.join(map(str, self.numbers))}"


class Symbol(NamedTuple):
    name: str
    kind: str  # FUNC, IFUNC, OBJECT or TLS
    size: int  # bytes
    version: Version
    is_default: bool  # whether what is linked with the library takes this version


def version(text: str) -> Version:
    """The version that a text as "GLIBC_2.17" names."""
    name, numbers = text.split("_")
    return Version(name, tuple(map(int, numbers.split("."))))


def defined(library: Path) -> list[Symbol]:
    """The symbols with versions that a library has."""
    rows = _DEFINED.finditer(_output("readelf", "--dyn-syms", "--wide", library))
    return [
        Symbol(
            row["name"],
            row["kind"],
            int(row["size"], 0),
            version(row["version"]),
            row["at"] == "@@",
        )
        for row in rows
    ]


def newest_needed(libraries: Iterable[Path]) -> dict[str, Version]:
    """The newest version of each set that a loader must find for these libraries."""
    needed = [
        version(row["version"])
        for library in libraries
        for row in _NEEDED.finditer(_output("objdump", "--private-headers", library))
    ]
    return {version.set: version for version in sorted(needed)}


def _output(*command: str | Path) -> str:
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=TIMEOUT
    ).stdout
