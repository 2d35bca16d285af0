"""What a mutant is, and where all of them stand."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = Path(__file__).with_name("rooms")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One fault, and the test that finds it.

    Attributes:
        name: Of this mutant alone.
        file: From the repository's root.
        text: What stands there, once.
        fault: What stands there instead.
        why: What goes wrong for a user.
        test: A pytest node, or a C++ binary and a part of its tests' names: "plan_test Chunks".
    """

    name: str
    file: str
    text: str
    fault: str
    why: str
    test: str

    @property
    def tests_in_cpp(self) -> bool:
        return ".py" not in self.test

    @property
    def part(self) -> str:
        """What must be built again: "python" (nothing), "core" or "kernels"."""
        if not self.file.startswith("ops/"):
            return "python"
        return "kernels" if self.file.startswith("ops/tensorflow/") else "core"

    def applied_to(self, source: str) -> str:
        """The file's text with the fault.

        Raises:
            ValueError: If the text does not stand there once.
        """
        found = source.count(self.text)
        if found != 1:
            raise ValueError(f"{self.name}: its text stands {found} times in {self.file}, not once")
        return source.replace(self.text, self.fault)


def rooms() -> dict[str, list[Mutant]]:
    """The mutants of each room, by its name."""
    return {path.stem: _read(path) for path in sorted(ROOMS.glob("*.py"))}


def _read(path: Path) -> list[Mutant]:
    spec = importlib.util.spec_from_file_location(f"mutants_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    mutants: list[Mutant] = module.MUTANTS
    return mutants
