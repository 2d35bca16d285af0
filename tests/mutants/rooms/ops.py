"""Faults in kungfu_tf/ops/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="noise-of-a-small-batch",
        file="kungfu_tf/ops/noise_scale.py",
        text="= (small - big) / (1 / b_small - 1 / b_big)",
        fault="= (small - big) / (1 / b_small)",
        why="The noise scale is too small.",
        test="tests/python/unit/ops/test_noise_scale.py",
    ),
    Mutant(
        name="signal-of-one-sample",
        file="kungfu_tf/ops/noise_scale.py",
        text="signal = (b_big * big - b_small * small)",
        fault="signal = (b_big * big - small)",
        why="The noise scale is biased.",
        test="tests/python/unit/ops/test_noise_scale.py",
    ),
    Mutant(
        name="average-does-not-decay",
        file="kungfu_tf/ops/smoothing.py",
        text="alpha * total + (1 - alpha) * x",
        fault="total + (1 - alpha) * x",
        why="A moving average never forgets.",
        test="tests/python/unit/ops/test_smoothing.py",
    ),
    Mutant(
        name="a-turn-is-taken-twice",
        file="kungfu_tf/ops/spanning_tree.py",
        text="tf.where(indices > last,",
        fault="tf.where(indices >= last,",
        why="round_robin asks one neighbour for ever.",
        test="tests/python/unit/ops/test_spanning_tree.py",
    ),
    Mutant(
        name="tree-has-a-circle",
        file="kungfu_tf/ops/spanning_tree.py",
        text="inside[:, None] & ~inside[None, :]",
        fault="inside[:, None] & inside[None, :]",
        why="The tree of shortest ways does not reach all peers.",
        test="tests/python/unit/ops/test_spanning_tree.py",
    ),
    Mutant(
        name="rows-are-not-added-up",
        file="kungfu_tf/ops/norms.py",
        text="        gradient = gradient_values.unique_rows(gradient)\n",
        fault="        pass\n",
        why="The norm of an embedding's gradient is too small.",
        test="tests/python/unit/ops/test_noise_scale.py",
    ),
]
