"""The position of a training in its data, and the share of each peer from there on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager

from kungfu_tf import ops, peer


class Position:
    """Which sample of which epoch all peers together train on next.

    Each pass through the result of `kungfu_tf.data.shard` begins here. So a change of the peers, or
    an error, costs the batches that were read ahead, and no sample. A step that all have made is
    committed. After a change newcomers are told, and all peers begin anew:

    ```
    epoch e: samples 0 .. n − 1 of the data set, in an order that only depends on e
    sample:  those before it were trained on, by whomever
    ```

    `kungfu_tf.elastic.fit` does all that by itself.

    Attributes:
        epoch: Which one, from 0.
        sample: How many of its samples are done with.
        gaps: Which samples are not, though later ones are, where peers do not meet in each step.
        length: How many samples an epoch has; None as long as no data set knows this position.

    Args:
        epoch: Where to begin.
        sample: The sample to begin with, to resume from a checkpoint.

    Raises:
        ValueError: If a number is negative.

    Example:

    ```python
    position, state = kf.data.Position(), kf.elastic.ElasticState(None)
    dataset = kf.data.shard(samples, position=position).map(decode).batch(32).prefetch(8)
    while not state.stopped():
        with kf.elastic.ElasticContext(state) as should_sync:
            if should_sync:
                kf.initializer.broadcast_variables(variables)
                position.synchronize()
            if should_sync or position.sample == 0:
                batches = iter(kf.data.even(dataset))
            count, (x, y) = next(batches)
            train_step(x, y, count)
            position.commit(int(kf.ops.all_reduce(count)))
            if position.epoch == 10:
                state.max_progress = state.progress
    ```
    """

    def __init__(self, *, epoch: int = 0, sample: int = 0) -> None:
        if epoch < 0 or sample < 0:
            raise ValueError(f"a position is not negative, as epoch {epoch}, sample {sample}")
        self.epoch = epoch
        self.sample = sample
        self.gaps: Any = _NONE
        self.length: int | None = None

    def commit(self, samples: int) -> None:
        """A step of all peers is done. Behind the last sample the next epoch begins.

        Args:
            samples: How many samples the batches of all peers had. More than are left are those.

        Raises:
            ValueError: If that is negative.
        """
        if samples < 0:
            raise ValueError(f"a step has 0 samples or more, not {samples}")
        self.sample += samples
        if self.length is not None and self.sample >= self.length:
            self.begin(self.epoch + 1)

    def commit_shares(self, samples: Sequence[int]) -> None:
        """Each peer is done with the first so many of the samples that it is dealt from here on.

        Args:
            samples: By rank.
        """
        size = len(samples)
        begun = self.rest()[: max(len(self.gaps), size * max(samples))]
        rounds, ranks = np.divmod(np.arange(len(begun)), size)
        self.gaps = begun[rounds >= np.asarray(samples)[ranks]]
        self.commit(sum(samples))

    def begin(self, epoch: int) -> None:
        """Goes to the beginning of an epoch."""
        self.epoch, self.sample, self.gaps = epoch, 0, _NONE

    def synchronize(self) -> None:
        """Gives all peers rank 0's. All call it, after a change of the peers."""
        if peer.is_single_process():
            return
        mine = [self.epoch, self.sample, *self.gaps] if peer.rank() == 0 else []
        with eager.eager_mode():
            told = ops.all_gather(np.array(mine, np.int64), concat=True, name="data/position")
        epoch, sample, *gaps = np.asarray(told).tolist()
        self.epoch, self.sample, self.gaps = epoch, sample, np.array(gaps, np.int64)

    def of_length(self, length: int) -> None:
        """An epoch of a data set has so many samples."""
        if self.length not in (None, length):
            raise ValueError(
                f"data sets with {self.length} and with {length} samples cannot have one position"
            )
        if self.sample > length:
            raise ValueError(f"there is no sample {self.sample} in a data set of {length}")
        self.length = length

    def rest(self) -> Any:
        """The numbers of the samples that are left, in the order of the epoch."""
        assert self.length is not None, "a data set has told it"
        return np.append(self.gaps, np.arange(self.sample + len(self.gaps), self.length))

    def left(self, rank: int, size: int, *, since: int | None = None) -> int:
        """How many samples of the epoch a rank gets, of so many peers, from here on."""
        assert self.length is not None, "a data set has told it"
        first = self.sample if since is None else since
        return max(0, -(-(self.length - first - rank) // size))


_NONE = np.empty(0, np.int64)


@dataclasses.dataclass(frozen=True)
class Dealt:
    """The known properties of the batches that a peer makes of its share.

    Attributes:
        position: Of the data set.
        batch_size: The size of all batches, except perhaps the last.
        drops: Whether a smaller last batch is left out.
    """

    position: Position
    batch_size: int
    drops: bool = False

    def batches(self, rank: int, size: int) -> int:
        """How many a rank gets, of so many peers, in the rest of the epoch."""
        samples = self.position.left(rank, size)
        return samples // self.batch_size if self.drops else -(-samples // self.batch_size)


# Datasets that leave the samples in their order, and each once.
_ORDERLY = {"AssertCardinality", "Map", "Options", "ParallelMap", "Prefetch"}
_BATCHING = {"Batch", "PaddedBatch", "ParallelBatch"}


def mark(dataset: tf.data.Dataset, dealt: Position | Dealt) -> tf.data.Dataset:
    """The dataset, which `dealt_of` knows."""
    dataset._kungfu_dealt = dealt
    return dataset


def follows(dataset: Any) -> bool:
    """Whether a dataset, or a dataset that it was made of, has a position."""
    waiting = [dataset] if isinstance(dataset, tf.data.Dataset) else []
    while waiting:
        one = waiting.pop()
        if hasattr(one, "_kungfu_dealt"):
            return True
        waiting.extend(one._inputs())
    return False


def batches_of(dataset: Any) -> int | None:
    """The number of this peer's batches in the rest of an epoch; None if it is unknown."""
    if not follows(dataset):
        return None
    try:
        return dealt_of(dataset).batches(peer.rank(), peer.size())
    except ValueError:
        return None


def dealt_of(dataset: tf.data.Dataset) -> Dealt:
    """The dataset of `data.shard`, and the steps that were applied to it since.

    Raises:
        ValueError: If it was not batched, or the samples or their order were changed after they
            were dealt: then the samples of a step are unknown.
    """
    batch_size, drops = None, False
    one = dataset
    while not hasattr(one, "_kungfu_dealt"):
        kind = type(one).__name__.strip("_").removesuffix("Dataset")
        inputs = one._inputs()
        if len(inputs) != 1 or kind not in _ORDERLY | _BATCHING:
            raise ValueError(
                f"{kind} after data.shard: a job that changes its size must know which samples a "
                "step has trained on, so only map, batch and prefetch may come after it. Do the "
                "rest before; shuffle by data.shard(dataset, shuffle=...)"
            )
        if kind in _BATCHING:
            if batch_size is not None:
                raise ValueError("after data.shard batch once")
            batch_size, drops = _static(one._batch_size), bool(_static(one._drop_remainder))
        [one] = inputs
    if isinstance(one._kungfu_dealt, Dealt):
        return one._kungfu_dealt
    if batch_size is None:
        raise ValueError("deal samples, and batch them afterwards: data.shard(samples).batch(32)")
    return Dealt(one._kungfu_dealt, int(batch_size), drops)


def followed(
    dataset: tf.data.Dataset, position: Position, shuffle: int | None, seed: int
) -> tf.data.Dataset:
    """The share of this peer from a position on, by the rank and size that it has then.

    Args:
        dataset: Of samples, the same on every peer and in every pass.
        position: Where it begins.
        shuffle: The buffer to shuffle with, if any.
        seed: Of the order in all epochs.
    """
    position.of_length(_length(dataset))
    if tf.executing_eagerly():
        _check_repeats(dataset)

    @tf.autograph.experimental.do_not_convert
    def deal(now: Any) -> tf.data.Dataset:
        # Not tf.unstack: beside a dataset from outside TensorFlow (to 2.21) crashes at it.
        now = tf.ensure_shape(now, [None])
        epoch, sample, rank, size, is_mine = now[0], now[1], now[2], now[3], now[4:]
        # Independent of tf.random.set_seed, which need not be the same on all peers.
        tf.compat.v1.get_default_graph().seed = 1
        ordered = dataset
        if shuffle:
            of_epoch = seed + epoch * _FAR
            ordered = dataset.shuffle(shuffle, seed=of_epoch, reshuffle_each_iteration=False)
        # One of the two is empty, and does not read: of -1 all are skipped.
        has_gaps = tf.size(is_mine, tf.int64) > 0
        return _chosen(ordered, is_mine).concatenate(
            ordered.skip(tf.where(has_gaps, np.int64(-1), sample)).shard(size, rank)
        )

    dealt = _when_begun(lambda: _now(position)).flat_map(deal)
    return mark(_left_at_once(dealt), position)


def of_arrays(
    arrays: Any, position: Position, batch_size: int, *, shuffle: bool, seed: int
) -> tf.data.Dataset:
    """Batches of this peer's part of arrays, dealt as `followed` does.

    Args:
        arrays: Of one length, nested; None stays.
        position: Where it begins.
        batch_size: Of each peer.
        shuffle: Whether each epoch has an order of its own.
        seed: Of the order in all epochs.

    Raises:
        ValueError: If their lengths differ, or there is none.
    """
    tensors = tf.nest.map_structure(
        lambda a: None if a is None else tf.convert_to_tensor(a), arrays
    )
    lengths = {int(t.shape[0]) for t in tf.nest.flatten(tensors) if t is not None}
    if len(lengths) != 1:
        raise ValueError(f"arrays of one length are needed, not of {sorted(lengths)} samples")
    [length] = lengths
    position.of_length(length)

    def numbers() -> Any:
        mine = _mine(position)
        if shuffle:
            return np.random.default_rng((seed, position.epoch)).permutation(length)[mine]
        return mine

    @tf.autograph.experimental.do_not_convert
    def gather(mine: Any) -> Any:
        return tf.nest.map_structure(lambda t: None if t is None else tf.gather(t, mine), tensors)

    @tf.autograph.experimental.do_not_convert
    def slices(mine: Any) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(mine, [None]))

    batches = _when_begun(numbers).flat_map(slices).batch(batch_size).map(gather)
    return mark(_left_at_once(batches.prefetch(_AHEAD)), Dealt(position, batch_size))


_FAR = 1_000_003
_AHEAD = 2


def _now(position: Position) -> Any:
    """Epoch, sample, rank and size; if there are gaps, of each sample whether it is this peer's."""
    place = np.array([position.epoch, position.sample, peer.rank(), peer.size()])
    if not len(position.gaps):
        return place
    return np.append(place, np.bincount(_mine(position), minlength=1))


def _mine(position: Position) -> Any:
    """The numbers of the samples that this peer is dealt."""
    return position.rest()[peer.rank() :: peer.size()]


def _chosen(dataset: tf.data.Dataset, is_one: Any) -> tf.data.Dataset:
    """The elements for which there is a 1, of the first so many."""
    numbered = tf.data.Dataset.zip(
        (dataset.take(tf.size(is_one, tf.int64)), tf.data.Dataset.from_tensor_slices(is_one))
    )
    chosen = numbered.filter(lambda element, is_one: is_one > 0)
    return chosen.map(lambda element, is_one: element)


def _when_begun(ask: Any) -> tf.data.Dataset:
    """A dataset of one element: the result of `ask` when a pass begins."""

    @tf.autograph.experimental.do_not_convert
    def answer(_: Any) -> Any:
        return tf.numpy_function(ask, [], tf.int64)

    return tf.data.Dataset.range(1).map(answer)


def _left_at_once(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset, of which iterators are dropped in the middle.

    The thread of autotuning sleeps for up to a minute, and sometimes is not woken. TensorFlow (to
    2.21) takes that long to destroy such an iterator.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _length(dataset: tf.data.Dataset) -> int:
    count = dataset.cardinality()
    if not tf.executing_eagerly():
        with tf.compat.v1.Session(graph=count.graph) as session:
            count = session.run(count)
    if int(count) < 0:
        raise ValueError(
            "data.shard: an epoch of a job that changes its size is one pass through its data, "
            "and the dataset's length is "
            f"{'infinite' if int(count) == tf.data.INFINITE_CARDINALITY else 'unknown'}: "
            "say it, by dataset.take(n) or tf.data.experimental.assert_cardinality(n)"
        )
    return int(count)


def _check_repeats(dataset: tf.data.Dataset) -> None:
    def beginning() -> list[bytes]:
        return [
            repr(np.asarray(part).tolist()).encode() if part.dtype == tf.string else _bytes(part)
            for element in dataset.take(_COMPARED)
            for part in tf.nest.flatten(element, expand_composites=True)
            if isinstance(part, tf.Tensor) and part.dtype not in (tf.variant, tf.resource)
        ]

    if beginning() != beginning():
        raise ValueError(
            "data.shard: the samples come in another order in each pass, so a pass cannot be "
            "continued in the middle. Shuffle by data.shard(dataset, shuffle=10_000, seed=...), "
            "which depends on the epoch only, or with reshuffle_each_iteration=False"
        )


_COMPARED = 4


def _bytes(part: Any) -> bytes:
    data: bytes = part.numpy().tobytes()
    return data


def _static(value: Any) -> Any:
    found = tf.get_static_value(value)
    if found is None:
        raise ValueError("a batch size that is known only when it runs cannot be followed")
    return found
