"""Data that follow a change of the peers: each sample of an epoch once, whatever was read ahead."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from kungfu_tf.data import position as positions
from kungfu_tf.data import shard
from kungfu_tf.data.dealt import dealt_of
from kungfu_tf.data.position import Position
from kungfu_tf.data.shares import share_of_arrays

LENGTH, BATCH = 103, 4


class Peers:
    """Who this process is: one peer after the other."""

    def __init__(self) -> None:
        self.number, self.of = 0, 1

    def rank(self) -> int:
        return self.number

    def size(self) -> int:
        return self.of

    def iterators(self, dataset: tf.data.Dataset, size: int) -> Iterator[tf.Tensor]:
        """One for each peer; they look ahead at once."""
        self.of = size
        for self.number in range(size):
            iterator = iter(dataset)
            first = next(iterator, None)
            yield iter([first, *iterator] if first is not None else [])


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Peers:
    fake = Peers()
    ours = types.SimpleNamespace(rank=fake.rank, size=fake.size)
    monkeypatch.setattr(positions, "peer", ours)
    return fake


def trained_on(
    peers: Peers, dataset: tf.data.Dataset, position: Position, sizes: list[int]
) -> list[int]:
    """The samples of an epoch, of which each size but the last makes three steps."""
    epoch, seen = position.epoch, []
    for number, size in enumerate(sizes):
        rests = list(peers.iterators(dataset, size))
        steps = 3 if number < len(sizes) - 1 else LENGTH
        for _ in range(steps):
            batches = [next(rest, None) for rest in rests]
            step = [int(x) for batch in batches if batch is not None for x in batch]
            seen += step
            position.commit(len(step))
            if position.epoch > epoch:
                return seen
    raise AssertionError(f"the epoch did not end: {position.sample}")


def numbers() -> tf.data.Dataset:
    return tf.data.Dataset.range(LENGTH)


def test_three_changes_in_an_epoch_lose_nothing(peers: Peers) -> None:
    position = Position()
    dataset = shard(numbers(), position=position, shuffle=16, seed=5)
    dataset = dataset.map(lambda x: x, num_parallel_calls=2).batch(BATCH).prefetch(8)
    first = trained_on(peers, dataset, position, [1, 4, 2, 3])
    assert sorted(first) == list(range(LENGTH))
    second = trained_on(peers, dataset, position, [3])
    assert sorted(second) == list(range(LENGTH)) and second != first
    # A step of all peers has the samples that a step of one has, whoever they are.
    again = Position()
    dataset = shard(numbers(), position=again, shuffle=16, seed=5).batch(BATCH)
    alone = trained_on(peers, dataset, again, [1])
    assert set(alone[: 3 * BATCH]) == set(first[: 3 * BATCH])
    assert set(alone[: 15 * BATCH]) == set(first[: 15 * BATCH])


def test_goes_on_at_a_sample(peers: Peers) -> None:
    position = Position(epoch=2, sample=90)
    dataset = shard(numbers(), position=position).batch(BATCH)
    assert trained_on(peers, dataset, position, [2]) != []
    assert position.epoch == 3 and position.sample == 0


def test_arrays(peers: Peers) -> None:
    x = np.arange(LENGTH)
    for shuffle in (False, True):
        position = Position()
        dataset = share_of_arrays((x, {"y": -x}, None), position, BATCH, shuffle=shuffle, seed=3)
        for batch, other, nothing in dataset.take(1):
            np.testing.assert_array_equal(batch, -other["y"])
            assert nothing is None
        samples = dataset.map(lambda x, y, nothing: x)
        seen = trained_on(peers, samples, position, [2, 4, 1, 3])
        assert sorted(seen) == list(range(LENGTH))
        assert (sorted(seen[: 3 * BATCH * 2]) == seen[: 3 * BATCH * 2]) is False or not shuffle


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", ["dataset", "arrays"])
def test_peers_that_come_to_different_places_lose_nothing(
    peers: Peers, kind: str, shuffle: bool
) -> None:
    first = 5
    position = Position(sample=first)
    if kind == "arrays":
        dataset = share_of_arrays(np.arange(LENGTH), position, BATCH, shuffle=shuffle, seed=3)
    else:
        pairs = tf.data.Dataset.zip((numbers(), numbers()))
        samples = shard(pairs, position=position, shuffle=16 if shuffle else None, seed=5)
        dataset = samples.map(lambda one, other: one).batch(BATCH).prefetch(4)
    seen: list[int] = []
    for batches in [2, 0, 5], [1, 4], [0, 3, 1, 2], [LENGTH] * 3:
        rests = peers.iterators(dataset, len(batches))
        shares = [itertools.islice(rest, b) for rest, b in zip(rests, batches, strict=True)]
        mine = [[int(x) for batch in share for x in batch] for share in shares]
        assert shuffle or all(share == sorted(share) for share in mine)
        seen += itertools.chain(*mine)
        position.commit_shares([len(share) for share in mine])
    assert (position.epoch, position.sample, len(position.gaps)) == (1, 0, 0)
    assert len(seen) == len(set(seen)) == LENGTH - first
    assert shuffle or sorted(seen) == list(range(first, LENGTH))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("sample", [0, 1, 50, 99, 102])
def test_batches_are_counted(peers: Peers, size: int, sample: int) -> None:
    position = Position(sample=sample)
    for drops in (False, True):
        dataset = shard(numbers(), position=position).batch(BATCH, drop_remainder=drops)
        dealt = dealt_of(dataset.prefetch(1))
        counts = [len(list(rest)) for rest in peers.iterators(dataset, size)]
        assert counts == [dealt.batches(rank, size) for rank in range(size)]
        assert max(counts) - min(counts) <= 1 and counts[0] == max(counts)


def test_what_cannot_be_followed_is_an_error() -> None:
    dealt = shard(numbers(), position=Position())
    with pytest.raises(ValueError, match="batch them afterwards"):
        dealt_of(dealt.map(lambda x: x))
    for change in (lambda d: d.shuffle(8), lambda d: d.repeat(), lambda d: d.cache()):
        with pytest.raises(ValueError, match=r"after data\.shard: a job that changes its size"):
            dealt_of(change(dealt).batch(4))
    with pytest.raises(ValueError, match="length is infinite"):
        shard(numbers().repeat(), position=Position())
    with pytest.raises(ValueError, match="length is unknown"):
        shard(numbers().filter(lambda x: x > 3), position=Position())
    with pytest.raises(ValueError, match="another order in each pass"):
        shard(numbers().shuffle(LENGTH), position=Position())
    shared = Position()
    shard(numbers(), position=shared)
    with pytest.raises(ValueError, match="cannot have one position"):
        shard(numbers().take(3), position=shared)
    with pytest.raises(ValueError, match="no sample 104"):
        shard(numbers(), position=Position(sample=104))
    with pytest.raises(ValueError, match="not negative"):
        Position(sample=-1)
    with pytest.raises(ValueError, match="one length"):
        share_of_arrays((np.zeros(3), np.zeros(4)), Position(), 2, shuffle=False, seed=0)
