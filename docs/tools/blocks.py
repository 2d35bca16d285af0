"""Runs the blocks of code that pages mark to run: `python -m docs.tools.blocks [PAGE ...]`.

Pieces of Python run as one job of two peers (docs/tools/fragments.py). Commands run as one script
for each page, in a folder with the files that the page shows under a title. Programs find a small
set of images in the place of Fashion-MNIST. Without arguments all pages run.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docs.tools import images, pages

ROOT = Path(__file__).parents[2]
SECONDS = 300  # of one job


@dataclass(frozen=True)
class Commands:
    """The commands of a page, one after the other.

    Attributes:
        page: Where they stand.
        environment: A folder of .venv/.
        script: For bash.
        printed: Lines that they print, with the line of the page where the first stands.
        files: What lies in their folder, by name.
    """

    page: Path
    environment: str
    script: str
    printed: tuple[tuple[int, str], ...]
    files: dict[str, str]


def main() -> int:
    """Runs them. Returns the exit code."""
    began = time.monotonic()
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or pages.all_pages()
    with tempfile.TemporaryDirectory(prefix="kungfu-docs-") as folder:
        environ = _environ(Path(folder))
        failed = [name for name in run_all(chosen, Path(folder), environ) if name]
    print(f"{len(chosen)} pages, {time.monotonic() - began:.0f} s")
    print("".join(f"failed: {name}\n" for name in failed), end="")
    return 1 if failed else 0


def run_all(chosen: Sequence[Path], folder: Path, environ: dict[str, str]) -> Iterator[str]:
    """What failed, or nothing, for each job."""
    for kind, launcher in (("", ["kungfu-run", "-w", "-np", "2"]), ("alone", [])):
        marked = [str(page) for page in chosen if _has_fragments(page, kind)]
        if marked:
            program = ["python", "-m", "docs.tools.fragments", kind, *marked]
            code, output = _run([*launcher, *program], folder, environ)
            lines = [line for line in output.splitlines() if code or line.endswith(pages.DONE)]
            print("\n".join(lines))
            yield f"{len(marked)} pages of Python, {kind or 'two peers'}" if code else ""
    for page in chosen:
        for commands in commands_of(page):
            yield from run_commands(commands, environ)


def _has_fragments(page: Path, kind: str) -> bool:
    return any(pages.is_fragment(part, kind) for part in pages.parts_of(page.read_text()))


def commands_of(page: Path) -> Iterator[Commands]:
    """Those that a page marks, by environment."""
    blocks = [part for part in pages.parts_of(page.read_text()) if isinstance(part, pages.Block)]
    files = {block.title: block.text for block in blocks if block.title}
    shell = [b for b in blocks if b.language in ("sh", "text") and b.note is not None]
    for environment in dict.fromkeys(_environment_of(b) for b in shell if b.note.kind == "run"):
        script, printed = "", []
        here = False
        for block in shell:
            if block.note.kind == "run":
                here = _environment_of(block) == environment
                script += block.text if here else ""
            elif here:
                printed += list(enumerate(block.text.splitlines(), start=block.line))
        yield Commands(page, environment, script, tuple(printed), files)


def _environment_of(block: pages.Block) -> str:
    return (block.note.text.strip() if block.note else "") or "tf-2.21"


def run_commands(commands: Commands, environ: dict[str, str]) -> Iterator[str]:
    """What failed, or nothing."""
    name = pages.name_of(commands.page)
    python = ROOT / ".venv" / commands.environment / "bin"
    if not python.exists():
        print(f"{name}: left out, there is no {commands.environment} here")
        return
    with tempfile.TemporaryDirectory() as folder:
        for file, text in commands.files.items():
            Path(folder, file).write_text(text)
        path = f"{environ['PATH'].split(':')[0]}:{python}:{os.environ['PATH']}"
        script = ["bash", "-euo", "pipefail", "-c", commands.script]
        code, output = _run(script, Path(folder), {**environ, "PATH": path})
    missing = missing_lines(commands.printed, output)
    print(output if code or missing else "", end="")
    print("".join(f"{name}:{line}: not printed: {text}\n" for line, text in missing), end="")
    print(f"{name}: commands with {commands.environment} {'FAILED' if code else 'run'}")
    yield f"{name}: {'exit code ' + str(code) if code else 'output'}" if code or missing else ""


def missing_lines(printed: Sequence[tuple[int, str]], output: str) -> list[tuple[int, str]]:
    """Those that are not in an output. Any number stands for any other; … for anything."""
    return [
        (line, text)
        for line, text in printed
        if text.strip() and not re.search(_pattern(text.strip()), output)
    ]


def _pattern(text: str) -> str:
    parts = re.split(r"(\d[\d.,e+-]*|…)", text)
    kinds = {True: r"[\d.,e+-]+", False: ".*"}
    return "".join(
        re.escape(part) if i % 2 == 0 else kinds[part != "…"] for i, part in enumerate(parts)
    )


def _environ(folder: Path) -> dict[str, str]:
    """What a user's shell has, where kungfu_tf is installed."""
    images.write(folder / ".keras" / "datasets" / "fashion-mnist")
    (folder / "bin").mkdir()
    for command, module, function in installed_commands():
        file = folder / "bin" / command
        call = f"import sys; from {module} import {function}; sys.exit({function}())"
        file.write_text(f"#!/bin/sh\nexec python -c '{call}' \"$@\"\n")
        file.chmod(0o755)
    given = {name: text for name, text in os.environ.items() if not name.startswith("KUNGFU_")}
    return {
        **given,
        "HOME": str(folder),
        "KUNGFU_BIND_TO": "none",
        "PATH": f"{folder / 'bin'}:{ROOT / '.venv' / 'tf-2.21' / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def installed_commands() -> list[tuple[str, str, str]]:
    """The commands that the package installs, each with its module and function."""
    text = (ROOT / "pyproject.toml").read_text()
    return re.findall(r'^([\w-]+) = "(kungfu_tf[\w.]+):(\w+)"$', text, re.MULTILINE)


def _run(command: Sequence[str], folder: Path, environ: dict[str, str]) -> tuple[int, str]:
    """Runs it with all that it starts. Returns its exit code and what it printed."""
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            code = 124
        finally:
            _end_group(process)
        process.wait()
        file.seek(0)
        output = file.read()
    return code, output


def _end_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended, with all that it started
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
