"""Faults in ops/memory/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="withdrawn-pages-are-used",
        file="ops/memory/arena.cc",
        text="range.first < offset + size && offset < range.first + range.second",
        fault="range.first < offset && offset < range.first + range.second",
        why="A tensor is put where a failed operation still writes.",
        test="memory_test Arena.",
    ),
    Mutant(
        name="freed-blocks-stay-apart",
        file="ops/memory/arena.cc",
        text="if (previous->first + previous->second == offset)",
        fault="if (previous->first + previous->second == offset + 1)",
        why="The arena falls into pieces until nothing fits.",
        test="memory_test Arena.",
    ),
]
