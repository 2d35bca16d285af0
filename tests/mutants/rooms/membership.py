"""Faults in kungfu_tf/membership/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="newcomers-write-progress",
        file="kungfu_tf/peer.py",
        text="if changed and progress is not None and not was_newcomer:",
        fault="if changed and progress is not None:",
        why="A newcomer says that the training is at its beginning.",
        test="tests/python/unit/membership/test_progress_file.py",
    ),
    Mutant(
        name="asks-again-after-a-restart",
        file="kungfu_tf/membership/size_plan.py",
        text="if self._wanted == before or goes_on:",
        fault="if self._wanted == before:",
        why="A job that was started anew for a size asks for it again.",
        test="tests/python/unit/membership/test_elastic_sizes.py",
    ),
    Mutant(
        name="errors-lose-their-beginning",
        file="kungfu_tf/membership/failing_together.py",
        text="text = text[:_LONGEST_REASON]",
        fault="text = text[-_LONGEST_REASON:]",
        why="The others do not hear what went wrong.",
        test="tests/python/unit/membership/test_failing_together.py",
    ),
]
