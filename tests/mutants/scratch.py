"""A copy of the tree that may be spoilt."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

from tests.mutants.mutant import ROOT, Mutant

FOLDER = ROOT / "build" / "mutants"
TREE = FOLDER / "tree"
LIBRARIES = "kungfu_tf/lib"


def make() -> None:
    """Brings the copy to the state of the tree. What is equal stays untouched, for Ninja's sake."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = {name for name in listing.split("\0") if name and (ROOT / name).is_file()}
    for path in list(TREE.rglob("*")):
        name = path.relative_to(TREE).as_posix()
        if path.is_file() and name not in names and not name.startswith(LIBRARIES):
            path.unlink()
    for name in names:
        _copy(name)
    put_libraries_back()


def put_libraries_back() -> None:
    """Takes the libraries that the tree has built."""
    built = list((ROOT / LIBRARIES).glob("*.so*"))
    if not built:
        raise SystemExit(f"{LIBRARIES} is empty: make build")
    for path in built:
        _copy(f"{LIBRARIES}/{path.name}")


@contextlib.contextmanager
def spoilt_by(mutant: Mutant) -> Iterator[None]:
    """Within it the copy has the fault.

    Raises:
        ValueError: If the mutant's text does not stand in its file once.
    """
    path = TREE / mutant.file
    source = path.read_text()
    path.write_text(mutant.applied_to(source))
    try:
        yield
    finally:
        path.write_text(source)


def _copy(name: str) -> None:
    source, target = ROOT / name, TREE / name
    if target.exists() and target.read_bytes() == source.read_bytes():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)  # a library may be mapped
    shutil.copy(source, target)
