"""Faults in kungfu_tf/upstream/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="old-keras-is-taken",
        file="kungfu_tf/upstream/versions.py",
        text="OLDEST_KERAS_3, NEWEST_KERAS_3 = (3, 3), (3, 15)",
        fault="OLDEST_KERAS_3, NEWEST_KERAS_3 = (3, 0), (3, 15)",
        why="A Keras that cannot work fails somewhere in a step.",
        test="tests/python/unit/upstream/test_upstream.py",
    ),
    Mutant(
        name="oldest-keras-is-refused",
        file="kungfu_tf/upstream/versions.py",
        text="    if found < oldest:",
        fault="    if found <= oldest:",
        why="Keras 3.3 and 2.15 are refused.",
        test="tests/python/unit/upstream/test_upstream.py",
    ),
    Mutant(
        name="half-of-the-patches",
        file="kungfu_tf/upstream/patches.py",
        text="    needed = [patch for patch in missing if patch.is_needed]",
        fault="    needed = [patch for patch in missing if not patch.is_needed]",
        why="Some patches are made where others cannot be.",
        test="tests/python/unit/upstream/test_upstream.py",
    ),
    Mutant(
        name="patched-twice",
        file="kungfu_tf/upstream/patches.py",
        text=('    if hasattr(original, "kungfu_replaced"):\n        return\n'),
        fault="",
        why="Two wrapped optimizers exchange each gradient twice.",
        test="tests/python/unit/upstream/test_upstream.py",
    ),
]
