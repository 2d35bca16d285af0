"""Faults in kungfu_tf/replicas/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="weights-are-not-spread",
        file="kungfu_tf/replicas/sample_weights.py",
        text="share = tf.cast(tf.cast(samples, tf.int64) * peers, tf.float64)",
        fault="share = tf.cast(samples, tf.float64)",
        why="Uneven batches train with a smaller learning rate.",
        test="tests/python/cluster/cases/data/cases_uneven.py",
    ),
    Mutant(
        name="nothing-times-nan",
        file="kungfu_tf/replicas/sample_weights.py",
        text="tf.math.multiply_no_nan(tf.cast(value, wide), tf.cast(weight, wide))",
        fault="tf.cast(value, wide) * tf.cast(weight, wide)",
        why="A peer without samples makes all weights NaN.",
        test="tests/python/cluster/cases/data/cases_uneven.py",
    ),
    Mutant(
        name="slots-stay-different",
        file="kungfu_tf/replicas/first_step.py",
        text="weights = [*model.weights, *states]",
        fault="weights = [*model.weights]",
        why="Peers that resume train with other momenta.",
        test=(
            "tests/python/cluster/cases/replicas/cases_initializer.py::np3"
            "::callback_starts_from_rank_0s_weights_and_slots"
        ),
    ),
    Mutant(
        name="own-models-are-lost",
        file="kungfu_tf/replicas/average.py",
        text="unchanged = digests_of_variables(variables) == means",
        fault="unchanged = digests_of_variables(variables) != means",
        why="After a save each peer goes on from the average.",
        test="tests/python/cluster/cases/optimizers/cases_averaging.py::np3::average_variables",
    ),
    Mutant(
        name="statistics-of-one-peer",
        file="kungfu_tf/replicas/average.py",
        text="(rows != rows[0]).any(axis=0)",
        fault="(rows != rows[0]).all(axis=0)",
        why="Rank 0 saves its own moving statistics.",
        test="tests/python/cluster/cases/keras/cases_statistics.py::np4",
    ),
    Mutant(
        name="dice-are-the-same",
        file="kungfu_tf/replicas/randomness.py",
        text="own_seed = _moved(seed, 1 + peer.rank())",
        fault="own_seed = _moved(seed, 1)",
        why="All peers drop the same units.",
        test="tests/python/cluster/cases/replicas/cases_random.py::np2",
    ),
    Mutant(
        name="right-peers-are-blamed",
        file="kungfu_tf/replicas/equality.py",
        text="if row[i] != rows[0][i]]",
        fault="if row[i] == rows[0][i]]",
        why="An error names the peers that are right.",
        test=(
            "tests/python/cluster/cases/replicas/cases_initializer.py::np3"
            "::weights_that_drift_apart_are_seen_at_the_end_of_the_epoch"
        ),
    ),
]
