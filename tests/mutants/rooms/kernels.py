"""Faults in ops/tensorflow/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="all-is-equal",
        file="ops/tensorflow/state_ops.cc",
        text="output->scalar<bool>()() = *equal != 0;",
        fault="output->scalar<bool>()() = true;",
        why="Weights that drift apart are not seen.",
        test=(
            "tests/python/cluster/cases/replicas/cases_initializer.py::np3"
            "::weights_that_drift_apart_are_seen_at_the_end_of_the_epoch"
        ),
    ),
    Mutant(
        name="stacks-are-joined",
        file="ops/tensorflow/gather_ops.cc",
        text="if (concat_) return WithRows(rows, input);",
        fault="if (!concat_) return WithRows(rows, input);",
        why="all_gather returns another shape.",
        test="tests/python/cluster/cases/ops/cases_gradients.py::np3",
    ),
]
