"""The data that `fit` trains on: as many batches on every peer, each counted by its samples."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.context import batch_factor
from kungfu_tf.data.empty import (
    allows_any_size,
    empty_batches,
    like_the_last,
    samples_of,
    stand_in,
    step_on,
)
from kungfu_tf.data.even import UNKNOWN, agree, prolong
from kungfu_tf.data.position import batches_of
from kungfu_tf.data.rebatch import Sizes, rebatched
from kungfu_tf.data.threads import one_may_wait
from kungfu_tf.keras.fit import loss_means
from kungfu_tf.keras.fit.elastic_run import ElasticRun
from kungfu_tf.replicas import first_step, sample_weights
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.warn import warn

_SHOWN = 100  # samples


class EvenAdapter:
    """Stands before the data adapter of a Keras package, which makes the dataset of what it got.

    Args:
        adapter: Keras'.
        dataset: What it has made.
        x: What the program gave.
        elastic_run: The training that this is a part of, if peers may come and go.
        goes_on: Whether an epoch may begin in the middle of a pass through the data.
        batch_size: What to begin with, if it may change; 0: what the data have. Else None.

    Attributes:
        sizes: Of the batches, if they may change.
        samples: How many all peers have trained on, if they may change.
        steps: How many steps were made, then.
        forget_length: Makes Keras forget how many batches an epoch has had, if they may change.
        is_even: Whether the batches of all peers are known to be of one size in every step.
        counts: Whether steps count their samples: if they are not, or if peers may come and go.
    """

    def __init__(
        self,
        adapter: Any,
        dataset: tf.data.Dataset,
        x: Any = None,
        *,
        goes_on: bool = False,
        batch_size: int | None = None,
        elastic_run: ElasticRun | None = None,
    ) -> None:
        self._adapter = adapter
        known = _Known.of(adapter)
        if (dealt := batches_of(x)) is not None:
            known = _Known(dealt, None, None)
        self.counts = self._is_dealt = elastic_run is not None
        self.sizes: Sizes | None = None
        self.samples: Any = None
        self.steps: Any = None
        self.forget_length: Callable[[], None] = lambda: None
        if batch_size is not None:
            size = elastic_run.dealt.batch_size if elastic_run else known.batch_size
            self.sizes = Sizes(batch_size or size or _first_size(dataset, x))
            self.samples = tf.Variable(0, trainable=False, dtype=tf.int64)
            self.steps = tf.Variable(0, trainable=False, dtype=tf.int64)
            once = dataset if known.cardinality is None else dataset.take(known.cardinality)
            dataset, known = rebatched(once, self.sizes), _Known(None, None, None)
        if elastic_run is not None:
            self.samples, self.steps = elastic_run.samples, elastic_run.steps
        if elastic_run is not None and self.sizes is not None:
            if elastic_run.dealt.drops:
                raise ValueError(
                    "PolicyCallback: drop_remainder=True cannot be with batches that change their "
                    "size: peers might come to different numbers of them. Leave it out"
                )
            elastic_run.sizes = self.sizes
            self.is_even, self._length, self._begins_anew = False, None, True
            self._first_batch: list[int] = []
            self._dataset = one_may_wait(_with_what_it_lacks(dataset, elastic_run))
            return
        plan = agree(dataset, **dataclasses.asdict(known), name="fit/data")
        self.is_even = plan.is_even
        self.counts = self.counts or not plan.is_even
        self._length = known.cardinality
        if plan.lacking:
            self._length = plan.length if plan.length >= 0 else None
        # Of arrays, how they begin: each peer may shuffle them in another way.
        is_array = isinstance(x, np.ndarray) and len(x) > 0
        self._first_batch = [_digest(x[:_SHOWN])] if is_array else []
        # Peers that ask each other for batches begin a pass together.
        self._begins_anew = plan.lacking and plan.length == UNKNOWN and not goes_on
        if elastic_run is not None:
            # One also where what is left is too little for any, and would be dropped.
            self._length = plan.length or int(not peer.is_single_process())
            dataset = _even_in_each_pass(dataset, plan.batches[peer.rank()], self._length)
        elif plan.lacking and known.cardinality is not None and plan.length >= 0:
            dataset = _even_in_each_epoch(dataset, known.cardinality, plan.length)
        else:
            if self._begins_anew and known.cardinality is not None:
                dataset = dataset.take(known.cardinality)  # Keras 2 may have put all epochs into it
            dataset = prolong(dataset, plan)
        self._dataset = one_may_wait(dataset)

    def looking_at_the_first_batch(self) -> tf.data.Dataset | None:
        """The dataset, which notes its first batch; None if that is known, or dealt out by us.

        A function of each batch, which a step of milliseconds would feel: for one pass only. Keras
        2 begins one that it does not go through before.
        """
        if self._first_batch or self._is_dealt:
            return None
        return _watched(self._dataset, self._first_batch)

    def get_tf_dataset(self) -> tf.data.Dataset:
        """The dataset, for Keras 3."""
        return self._dataset

    def get_dataset(self) -> tf.data.Dataset:
        """The dataset, for Keras 2."""
        return self._dataset

    @property
    def num_batches(self) -> int | None:
        """The number of batches or None, for Keras 3."""
        return self._length

    def get_size(self) -> int | None:
        """The number of batches or None, for Keras 2."""
        return self._length

    def should_recreate_iterator(self) -> bool:
        """Whether each epoch begins a new pass, for Keras 2."""
        return self._begins_anew or bool(self._adapter.should_recreate_iterator())

    def on_epoch_begin(self) -> None:
        """For Keras 3."""
        self.forget_length()
        self._adapter.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """For Keras 2, and 3."""
        self.forget_length()
        self._adapter.on_epoch_end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def warn_if_all_have_the_same(self) -> None:
        """Warns once if the first batch of all peers was the same. All must have trained on one."""
        if self._is_dealt or peer.size() == 1:
            return
        unknown = -1 - peer.rank()  # is nobody's digest
        digest = np.int64(self._first_batch[0] if self._first_batch else unknown)
        if bool(ops.consensus(digest, name="fit/first_batch")) and peer.is_root():
            warn(
                f"the first batch is the same on all {peer.size()} peers: they seem to train on "
                "the same data. Give each its part, with kungfu_tf.data.shard(dataset), or of "
                "arrays x[kungfu_tf.rank() :: kungfu_tf.size()]"
            )


def _with_what_it_lacks(dataset: tf.data.Dataset, elastic_run: ElasticRun) -> tf.data.Dataset:
    """The dataset with an empty batch, if another peer has a batch more: rank 0, for one sample."""
    sizes = elastic_run.sizes

    def lacks() -> bool:
        mine, most = elastic_run.dealt_to(peer.rank()), elastic_run.dealt_to(0)
        return mine < most and bool(sizes.begun_samples() == mine)

    def ask(_: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(lacks, [], tf.bool), [])

    one = tf.data.Dataset.range(1).filter(ask)
    empty = empty_batches(dataset.element_spec)
    return dataset.concatenate(tf.data.Dataset.zip((one, empty)).map(lambda _, batch: batch))


def build_metrics(model: Any, element_spec: Any) -> None:
    """Creates the metrics' variables, whose values `counting_samples` wants to know before a step.

    Otherwise Keras creates them when it traces the first step.
    """
    made = ("_compile_loss", "_compile_metrics", "compiled_loss", "compiled_metrics")
    parts = [vars(model).get(name) for name in made]
    if model.run_eagerly or all(part is None or part.built for part in parts):
        return
    if generations.has_own_train_step(model):  # which may call something else than the model
        return
    first_step.trace(model.test_step, element_spec)
    model.reset_metrics()


def counting_samples(
    model: Any, evened: EvenAdapter, elastic_run: ElasticRun | None = None
) -> Callable[[Any], Any]:
    """The model's train step, averaging over samples. A batch without any leaves no trace in it."""
    train_step = getattr(model.train_step, "kungfu_counts", model.train_step)
    sizes, trained = evened.sizes, evened.samples
    first = sizes.newest if sizes else 1
    if elastic_run is not None:
        first, trained = elastic_run.first_batch_size, None
    total_of = elastic_run.total_of if elastic_run else sample_weights.total_of

    def step(data: Any) -> Any:
        count = samples_of(data)
        with sample_weights.samples(count, total_of) as total, loss_means.counting(model):
            if trained is not None:
                trained.assign_add(total)
                evened.steps.assign_add(tf.cast(total >= 0, tf.int64))  # if there was a batch
            if sizes is not None:
                batch_factor.factor.get().assign(tf.cast(count, tf.float64) / first)
            return step_on(model, count, lambda: train_step(stand_in(data, count)))

    step.kungfu_counts = train_step  # type: ignore[attr-defined]
    return step


def _first_size(dataset: tf.data.Dataset, x: Any) -> int:
    """How many samples the first batch has."""
    if not isinstance(x, tf.data.Dataset):  # looking into it would take something away
        raise ValueError(
            "PolicyCallback: how large the batches are is not known: give it batch_size=..."
        )
    return int(samples_of(next(iter(dataset))))


@dataclasses.dataclass(frozen=True)
class _Known:
    """What a data adapter knows of its batches."""

    cardinality: int | None
    batch_size: int | None
    samples: int | None

    @staticmethod
    def of(adapter: Any) -> _Known:
        def ask(*names: str) -> Any:
            answer = next(getattr(adapter, name) for name in names if hasattr(adapter, name))
            return answer() if callable(answer) else answer

        batches, size = ask("num_batches", "get_size"), ask("batch_size")
        batches, size = (None if v is None else int(v) for v in (batches, size))
        if not batches or not size:
            return _Known(batches, size, 0 if batches == 0 else None)
        last = int(ask("partial_batch_size")) if ask("has_partial_batch") else size
        return _Known(batches, size, (batches - 1) * size + last)


def _even_in_each_epoch(dataset: tf.data.Dataset, mine: int, length: int) -> tf.data.Dataset:
    """The dataset with `length` batches of each epoch, of which it has `mine`.

    It may go on with the batches of the next epoch, as Keras 2 has it.
    """
    empty = empty_batches(dataset.element_spec)
    if mine == length:
        return dataset
    has = tf.data.Dataset.from_tensors(np.int64(0)).repeat(mine)
    lacks = has.concatenate(tf.data.Dataset.from_tensors(np.int64(1)).repeat(length - mine))
    chosen = tf.data.Dataset.choose_from_datasets([dataset, empty], lacks.repeat())
    return like_the_last(chosen)


def _even_in_each_pass(dataset: tf.data.Dataset, mine: int, length: int) -> tf.data.Dataset:
    """The dataset with `length` batches, of which it has `mine`, in each pass through it.

    The one that it is made for may lack none, and another some: where the dataset knows the size of
    its batches, as empty ones do not, nothing is to be traced anew for that.
    """
    if peer.is_single_process() or (mine == length and allows_any_size(dataset.element_spec)):
        return dataset
    empty = empty_batches(dataset.element_spec)
    longer = dataset.concatenate(empty.take(length - mine))
    return longer if mine == length else like_the_last(longer)


def _digest(array: Any, before: int = 0) -> int:
    data = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return zlib.crc32(data, before)


def _watched(dataset: tf.data.Dataset, digests: list[int]) -> tf.data.Dataset:
    """The dataset, which adds a digest of its first batch when it is gone through."""

    def note(*tensors: Any) -> np.int64:
        digest = 0
        for tensor in tensors:
            digest = _digest(tensor, digest)
        digests.append(digest)
        return np.int64(digest)

    def look(number: Any, batch: Any) -> Any:
        parts = tf.nest.flatten(batch, expand_composites=True)
        parts = [t for t in parts if isinstance(t, tf.Tensor) and t.dtype != tf.variant]

        def first() -> Any:
            return tf.numpy_function(note, parts, tf.int64)

        if parts:
            tf.cond(tf.equal(number, 0), first, lambda: tf.constant(0, tf.int64))
        return batch

    return dataset.enumerate().map(look)
