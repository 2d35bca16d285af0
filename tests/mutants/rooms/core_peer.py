"""Faults in ops/peer/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="numbers-without-a-bound",
        file="ops/peer/config.cc",
        text="*out >= least && *out <= most",
        fault="*out >= least",
        why="KUNGFU_LOG_LEVEL=9 is taken.",
        test="peer_test Config.",
    ),
    Mutant(
        name="empty-is-a-value",
        file="ops/peer/config.cc",
        text="if (text != nullptr && *text != '\\0')",
        fault="if (text != nullptr)",
        why="KUNGFU_STRATEGY= is an error.",
        test="peer_test Config.",
    ),
]
