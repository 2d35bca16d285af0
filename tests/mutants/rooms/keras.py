"""Faults in kungfu_tf/keras/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="warmup-ends-too-high",
        file="kungfu_tf/keras/callbacks/learning_rate_warmup.py",
        text="(peer.agreed_size() - 1) * progress",
        fault="peer.agreed_size() * progress",
        why="The warmed-up rate is that of one peer more.",
        test="tests/python/cluster/cases/optimizers/cases_learning_rate.py::np2",
    ),
    Mutant(
        name="schedule-ends-an-epoch-late",
        file="kungfu_tf/keras/callbacks/learning_rate_schedule.py",
        text="epoch < self._end",
        fault="epoch <= self._end",
        why="Two schedules set the rate of one epoch.",
        test="tests/python/cluster/cases/optimizers/cases_learning_rate.py::np2",
    ),
    Mutant(
        name="rate-is-not-scaled",
        file="kungfu_tf/keras/callbacks/scaled_rate.py",
        text="return rate * factor",
        fault="return rate",
        why="A schedule trains N times slower than it should.",
        test="tests/python/cluster/cases/optimizers/cases_learning_rate.py::np2",
    ),
    Mutant(
        name="warmup-begins-its-epoch-anew",
        file="kungfu_tf/keras/callbacks/learning_rate.py",
        text="fit.elastic_run.done_before if fit and fit.elastic_run else 0.0",
        fault="0.0",
        why="After a change of the peers the warm-up falls back.",
        test="tests/python/cluster/test_survivors.py::"
        "test_all_survivors_count_the_same_number_of_peers",
    ),
    Mutant(
        name="survivors-scale-apart",
        file="kungfu_tf/keras/callbacks/scaled_rate.py",
        text="topology.agreed_size() if peer.elastic()",
        fault="topology.cluster_size() if peer.elastic()",
        why="After a loss survivors train with different rates.",
        test="tests/python/cluster/test_survivors.py::"
        "test_all_survivors_count_the_same_number_of_peers",
    ),
    Mutant(
        name="all-ranks-write-files",
        file="kungfu_tf/keras/fit/callbacks.py",
        text="if peer.is_root() or not isinstance(c, writers(fit.model))]",
        fault="if c is not writers(fit.model)]",
        why="Two peers write one checkpoint at the same time.",
        test="tests/python/cluster/cases/keras/cases_fit_callbacks.py::np3",
    ),
    Mutant(
        name="all-ranks-print",
        file="kungfu_tf/keras/fit/printing.py",
        text='return peer.is_root() or config.VERBOSE.get() == "all"',
        fault="return True",
        why="Progress bars of all peers are mixed.",
        test="tests/python/cluster/cases/keras/cases_fit_callbacks.py::np3",
    ),
    Mutant(
        name="saves-come-late",
        file="kungfu_tf/keras/fit/saves.py",
        text="if self.seen < self.period:",
        fault="if self.seen <= self.period:",
        why="A checkpoint within an epoch is of one peer's model.",
        test="tests/python/cluster/cases/keras/cases_fit_averaging.py::np3",
    ),
    Mutant(
        name="variance-of-one-peer",
        file="kungfu_tf/keras/layers/moments.py",
        text="squares - mean * (2 * total - count * mean)",
        fault="squares - mean * (total - count * mean)",
        why="SyncBatchNormalization has another variance.",
        test="tests/python/cluster/cases/layers/cases_batch_norm.py::np4",
    ),
    Mutant(
        name="first-step-is-not-checked",
        file="kungfu_tf/keras/callbacks/broadcast.py",
        text="            if self.checks_first_step:",
        fault="            if not self.checks_first_step:",
        why="A train step that forgets to average is seen an epoch later.",
        test=(
            "tests/python/cluster/cases/replicas/cases_initializer.py::np3"
            "::a_train_step_that_forgets_to_average_is_seen_after_the_first_step"
        ),
    ),
    Mutant(
        name="arguments-may-differ",
        file="kungfu_tf/keras/fit/agreement.py",
        text="if np.any(column != column[0]):",
        fault="if np.all(column != column[0]):",
        why="Peers with different numbers of epochs wait for each other.",
        test="tests/python/cluster/cases/keras/cases_fit.py::np3",
    ),
]
