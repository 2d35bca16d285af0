"""Faults in kungfu_tf/data/."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="all-get-rank-0s-samples",
        file="kungfu_tf/data/shard.py",
        text="return dataset.take(count - count % size).shard(size, rank)",
        fault="return dataset.take(count - count % size).shard(size, 0)",
        why="All peers train on the same samples.",
        test="tests/python/unit/data/test_shard.py",
    ),
    Mutant(
        name="incomplete-rounds-are-dealt",
        file="kungfu_tf/data/shard.py",
        text="return dataset.take(count - count % size).shard(size, rank)",
        fault="return dataset.take(count).shard(size, rank)",
        why="A peer has a batch more than the others, who wait for it.",
        test="tests/python/unit/data/test_shard.py",
    ),
    Mutant(
        name="last-sample-goes-to-nobody",
        file="kungfu_tf/data/shard.py",
        text="dataset.repeat().take(size - 1)",
        fault="dataset.repeat().take(size - 2)",
        why="The last round is not filled up: its samples are dealt to nobody.",
        test="tests/python/unit/data/test_shard.py",
    ),
    Mutant(
        name="gaps-are-trained-twice",
        file="kungfu_tf/data/position.py",
        text="np.arange(self.sample + len(self.gaps), self.length)",
        fault="np.arange(self.sample, self.length)",
        why="After a resize some samples are trained on twice.",
        test="tests/python/unit/data/test_position.py",
    ),
    Mutant(
        name="left-is-rounded-down",
        file="kungfu_tf/data/position.py",
        text="-(-(self.length - first - rank) // size)",
        fault="(self.length - first - rank) // size",
        why="The last, smaller batch of an epoch is not counted.",
        test="tests/python/unit/data/test_position.py",
    ),
    Mutant(
        name="one-empty-batch-too-few",
        file="kungfu_tf/data/even.py",
        text="empty.take(plan.length - mine)",
        fault="empty.take(plan.length - mine - 1)",
        why="The longest peer waits for the others in its last step.",
        test="tests/python/unit/data/test_even.py",
    ),
    Mutant(
        name="sizes-change-a-batch-early",
        file="kungfu_tf/data/rebatch.py",
        text="self._changes.append((newest + 1, size))",
        fault="self._changes.append((newest, size))",
        why="Peers train a step with batches of different sizes.",
        test="tests/python/unit/policy/test_policies.py",
    ),
]
