"""The system's C and C++ libraries as they were, to be linked with.

A linked library asks for the newest version of each symbol that the linker has seen, so what is
linked with a new C library does not load beside an old one. The linker sees another one here: one
library for each of the system's, with its names and without code, in which each symbol has the
newest version that was there in time. What came later is taken from an archive.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import symbols
from machines import Machine
from symbols import Symbol, Version

TIMEOUT = 60.0
NEWER = Path(__file__).with_name("newer.c")

# Of manylinux_2_17, which is what most of TensorFlow's wheels are.
NEWEST = {
    version.set: version
    for version in map(
        symbols.version, ("GLIBC_2.17", "GLIBCXX_3.4.19", "CXXABI_1.3.7", "GCC_4.8.0")
    )
}

# What the linker is asked for, and of what that consists: libraries, and archives after them.
SCRIPTS = {
    "libc.so": (
        "libc.so.6 libnewer.a {c_nonshared} AS_NEEDED ( libpthread.so.0 libdl.so.2 {loader} )"
    ),
    "libm.so": "libm.so.6",
    "libgcc_s.so": "libgcc_s.so.1 -lgcc",
    "libstdc++.so": "libstdc++.so.6 {stdcxx}",
}
LIBRARIES = ("libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6")  # and the loader
# Libraries of their own until glibc 2.34 took them in, which gave each function another version.
TAKEN_IN = symbols.version("GLIBC_2.34")
TAKEN_IN_FROM = {"libpthread.so.0": ("pthread_", "sem_"), "libdl.so.2": ("dl",)}

# The section and the type of a symbol.
KINDS = {
    "FUNC": (".text", "%function"),
    "IFUNC": (".text", "%function"),
    "OBJECT": (".bss", "%object"),
    "TLS": ('.section .tbss, "awT", %nobits', "%tls_object"),
}


def make(directory: Path, machine: Machine) -> None:
    """Fills a directory, for `g++ -L<directory>`."""
    compiler = machine.tool("g++")
    directory.mkdir(parents=True, exist_ok=True)
    for soname in (machine.loader, *LIBRARIES):
        for name, members in _split(soname, symbols.defined(_find(soname, compiler))).items():
            _link(directory / name, members, compiler)
    newer = directory / "newer.o"
    _run(compiler, "-x", "c", "-O2", "-fPIC", "-c", str(NEWER), "-o", str(newer))
    _run(machine.tool("ar"), "rcs", str(directory / "libnewer.a"), str(newer))
    files = {
        "loader": machine.loader,
        "c_nonshared": _find("libc_nonshared.a", compiler),
        "stdcxx": _find("libstdc++.a", compiler),
    }
    for name, parts in SCRIPTS.items():
        (directory / name).write_text(f"GROUP ( {parts.format(**files)} )\n")


def _split(soname: str, defined: list[Symbol]) -> dict[str, list[Symbol]]:
    """The symbols of a library by the library that they were in."""
    if soname != "libc.so.6":
        return {soname: defined}
    taken_in = {symbol.name for symbol in defined if symbol.version == TAKEN_IN}
    parts: dict[str, list[Symbol]] = {soname: [], **{name: [] for name in TAKEN_IN_FROM}}
    for symbol in defined:
        homes = [
            name for name, prefixes in TAKEN_IN_FROM.items() if symbol.name.startswith(prefixes)
        ]
        home = homes[0] if homes and symbol.name in taken_in else soname
        parts[home].append(symbol)
    return parts


def _link(library: Path, members: list[Symbol], compiler: str) -> None:
    """Makes a library that has the names of these symbols, each in its newest old version."""
    linkable = {symbol.name for symbol in members if symbol.is_default}
    newest: dict[str, Symbol] = {}
    for symbol in sorted(members, key=lambda symbol: symbol.version):
        limit = NEWEST.get(symbol.version.set)
        if symbol.name in linkable and limit and symbol.version <= limit:
            newest[symbol.name] = symbol
    named: dict[Version, list[str]] = {}
    for name, symbol in newest.items():
        named.setdefault(symbol.version, []).append(name)
    source = library.with_suffix(".s")
    source.write_text("".join(map(_definition, newest.values())) + ".section .note.GNU-stack\n")
    versions = library.with_suffix(".map")
    versions.write_text(
        "".join(f"{version} {{ {'; '.join(names)}; }};\n" for version, names in named.items())
    )
    link = ["-nostdlib", "-shared", "-o", str(library), str(source)]
    _run(compiler, *link, f"-Wl,-soname={library.name},--version-script={versions}")


def _definition(symbol: Symbol) -> str:
    """A symbol in assembler, of the kind and size that it has, but empty."""
    name, size = symbol.name, symbol.size
    section, kind = KINDS[symbol.kind]
    lines = [section, f".globl {name}", f".type {name}, {kind}", f".size {name}, {size}"]
    return "\n".join([*lines, f"{name}: .skip {max(size, 1)}\n"])


def _find(name: str, compiler: str) -> Path:
    """The path of a file that the compiler links with."""
    path = Path(_run(compiler, f"-print-file-name={name}").strip())
    if not path.is_absolute():
        raise FileNotFoundError(f"{compiler} has no {name}")
    return path.resolve()


def _run(*command: str) -> str:
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=TIMEOUT
    ).stdout
