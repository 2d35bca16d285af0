"""Faults in kungfu_tf/policy/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="rate-of-adam-grows-linearly",
        file="kungfu_tf/policy/batch_size.py",
        text="training.learning_rate * ratio**exponent",
        fault="training.learning_rate * ratio",
        why="The rate of Adam grows as that of SGD.",
        test="tests/python/unit/policy/test_policies.py",
    ),
    Mutant(
        name="noise-of-all-peers",
        file="kungfu_tf/policy/noise_scale_batch_size.py",
        text="statistics.median(self._measured) / training.size",
        fault="statistics.median(self._measured)",
        why="Each peer's batch grows to what all together should have.",
        test="tests/python/unit/policy/test_policies.py",
    ),
    Mutant(
        name="old-measurements-count",
        file="kungfu_tf/policy/noise_scale_batch_size.py",
        text=("/ training.size\n        self._measured.clear()"),
        fault="/ training.size",
        why="The batch follows the noise of the whole training.",
        test="tests/python/unit/policy/test_policies.py",
    ),
]
