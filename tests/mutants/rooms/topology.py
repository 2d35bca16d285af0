"""Faults in kungfu_tf/topology/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="shares-forget-the-ranks-behind",
        file="kungfu_tf/topology/base_graphs.py",
        text="share = inside / (len(blocks) * (inside + len(behind)))",
        fault="share = 1 / (1 + len(blocks))",
        why="The mean of a number of peers that is no power of two is not exact.",
        test="tests/python/unit/topology/test_definitions.py",
    ),
    Mutant(
        name="takes-from-the-wrong-side",
        file="kungfu_tf/topology/weights.py",
        text="np.roll(np.eye(size), shift, axis=0)",
        fault="np.roll(np.eye(size), shift, axis=1)",
        why="A directed ring goes the other way: sources and targets are mixed up.",
        test="tests/python/unit/topology/test_definitions.py",
    ),
    Mutant(
        name="columns-are-not-checked",
        file="kungfu_tf/topology/checks.py",
        text=' + [("column", 0)] * doubly',
        fault='(("row", 1),)',
        why="A training comes to a solution that favours some peers.",
        test="tests/python/unit/topology/test_given.py",
    ),
]
