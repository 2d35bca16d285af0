"""Faults in kungfu_tf/tf1/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="another-rank-saves",
        file="kungfu_tf/tf1/session/rank0.py",
        text=("    def begin(self) -> None:\n        if peer.is_root():"),
        fault=("    def begin(self) -> None:\n        if not peer.is_root():"),
        why="Checkpoints are those of another rank.",
        test="tests/python/cluster/cases/tf1/cases_session.py::np3::rank_0_has_the_state",
    ),
    Mutant(
        name="nobody-stops",
        file="kungfu_tf/tf1/session/ending_agreement.py",
        text='op="max", name="session/agreement"',
        fault='op="min", name="session/agreement"',
        why="A peer without data leaves the others waiting.",
        test="tests/python/cluster/cases/tf1/cases_session.py::np3::a_hook_stops_all",
    ),
    Mutant(
        name="first-step-of-a-session",
        file="kungfu_tf/tf1/hooks/broadcast.py",
        text="(self._steps - 1) % self._check_every == 0",
        fault="self._steps % (self._check_every + 1) == 0",
        why="The first step of a session is not checked.",
        test=(
            "tests/python/cluster/cases/replicas/cases_initializer.py::np3::hook_sees_that_nothing_was_averaged"
        ),
    ),
    Mutant(
        name="survivors-count-samples-apart",
        file="kungfu_tf/tf1/hooks/policy.py",
        text="training.batch_size * count_peers()",
        fault="training.batch_size * training.size",
        why="After a loss peers begin an epoch in different steps, and wait for each other.",
        test="tests/python/cluster/test_survivors.py::"
        "test_all_survivors_count_the_same_number_of_peers",
    ),
]
