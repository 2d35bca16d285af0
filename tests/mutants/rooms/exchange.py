"""Faults in kungfu_tf/exchange/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="first-layers-travel-first",
        file="kungfu_tf/exchange/buckets.py",
        text="for i in reversed(range(len(gradients))):",
        fault="for i in range(len(gradients)):",
        why="The exchange waits for the end of the backward pass.",
        test="tests/python/unit/exchange/test_buckets.py",
    ),
    Mutant(
        name="buckets-are-too-full",
        file="kungfu_tf/exchange/buckets.py",
        text="filled + size > bucket_bytes:",
        fault="filled > bucket_bytes:",
        why="A bucket has more bytes than were asked for.",
        test="tests/python/unit/exchange/test_buckets.py",
    ),
    Mutant(
        name="rows-are-summed",
        file="kungfu_tf/exchange/sparse_rows.py",
        text="return sums / tf.cast(ops.cluster_size(), sums.dtype)",
        fault="return sums",
        why="An embedding's gradients are as many times too large as there are peers.",
        test="tests/python/cluster/cases/optimizers/cases_optimizers.py::np2",
    ),
    Mutant(
        name="some-peers-skip-a-step",
        file="kungfu_tf/exchange/loss_scale.py",
        text='op="min", name=name',
        fault='op="max", name=name',
        why="A peer whose gradients overflow skips a step alone.",
        test="tests/python/cluster/cases/optimizers/cases_matrix_models.py::"
        "np2::several_optimizers_that_scale_the_loss",
    ),
    Mutant(
        name="scale-is-not-known",
        file="kungfu_tf/exchange/loss_scale.py",
        text="with context.within(scale=scale):",
        fault="with context.within(scale=tf.ones_like(scale)):",
        why="The loss scale is not undone in what is measured.",
        test="tests/python/cluster/cases/optimizers/cases_monitored.py::np3",
    ),
    Mutant(
        name="own-model-stays",
        file="kungfu_tf/exchange/streaming.py",
        text="self.merge * widened(variable) + (1 - self.merge) * anchor",
        fault="(1 - self.merge) * widened(variable) + self.merge * anchor",
        why="At the end of a meeting a peer keeps its own model, and not that of all.",
        test="tests/python/cluster/cases/optimizers/cases_streaming.py::np3",
    ),
    Mutant(
        name="a-matrix-has-two-turns",
        file="kungfu_tf/exchange/gossip.py",
        text="tf.convert_to_tensor(self.meetings.assign_add(1)) - 1",
        fault="tf.convert_to_tensor(self.meetings.assign_add(1)) // 2",
        why="The cycle of a topology is not exact.",
        test="tests/python/cluster/cases/optimizers/cases_gossip.py::np3",
    ),
    Mutant(
        name="sent-elements-are-kept",
        file="kungfu_tf/exchange/top_k.py",
        text="tf.tensor_scatter_nd_sub(wholes[i], places[:, tf.newaxis], elements)",
        fault="wholes[i]",
        why="What was sent is sent again.",
        test="tests/python/cluster/cases/exchange/cases_top_k.py::np3",
    ),
    Mutant(
        name="rounding-is-lost",
        file="kungfu_tf/exchange/error_feedback.py",
        text="wholes[i] - sent[i]",
        fault="tf.zeros_like(sent[i])",
        why="What rounding has taken never travels.",
        test="tests/python/cluster/cases/exchange/cases_error_feedback.py::np3",
    ),
    Mutant(
        name="small-ones-are-not-looked-at",
        file="kungfu_tf/exchange/by_size.py",
        text="is_finite &= tf.convert_to_tensor(channel.is_finite)",
        fault="is_finite = tf.convert_to_tensor(channel.is_finite)",
        why="A step that a small gradient makes void counts for the codec of the large ones.",
        test="tests/python/cluster/cases/exchange/cases_by_size.py::np3",
    ),
]
