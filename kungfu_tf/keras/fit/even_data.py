"""The data that `fit` trains on: the same number of batches on every peer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.data.empty import samples_of
from kungfu_tf.data.even import UNKNOWN, agree, prolong
from kungfu_tf.data.rebatch import Sizes, rebatched
from kungfu_tf.data.threads import one_may_wait
from kungfu_tf.keras.fit.even_lengths import (
    even_in_each_epoch,
    even_in_each_pass,
    even_where_sizes_change,
)
from kungfu_tf.keras.fit.known_batches import KnownBatches
from kungfu_tf.keras.fit.meetings import rounds_of
from kungfu_tf.keras.fit.same_data import FirstBatch

if TYPE_CHECKING:
    from kungfu_tf.keras.fit.call import Fit
    from kungfu_tf.keras.fit.elastic_run import ElasticRun


@dataclasses.dataclass(eq=False)
class EvenData:
    """The data of one call of `fit`.

    Attributes:
        dataset: The dataset of batches.
        length: The number of batches of an epoch; None if it is unknown.
        counts: Whether steps count their samples, because batches may differ in size between the
            peers, or because peers may come and go.
        begins_anew: Whether each epoch begins a new pass through the data.
        first_batch: Finds out whether all peers have the same data; None if the data were dealt
            out.
        sizes: The sizes of the batches, if policies may change them.
        samples: The number of samples that all peers have trained on, an int64 variable, if sizes
            may change or peers may come and go.
        steps: The number of steps that were made, an int64 variable, in the same cases.
        forget_length: Makes Keras forget the number of batches of an epoch, if sizes may change.
    """

    dataset: tf.data.Dataset
    length: int | None
    counts: bool
    begins_anew: bool
    first_batch: FirstBatch | None = None
    sizes: Sizes | None = None
    samples: Any = None
    steps: Any = None
    forget_length: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, fit: Fit, adapter: Any, dataset: tf.data.Dataset, *, goes_on: bool) -> EvenData:
        """The data of a call, from the dataset that Keras has made of `x`. All peers call it.

        Args:
            fit: The call.
            adapter: Keras' data adapter.
            dataset: The dataset that the adapter has made.
            goes_on: Whether an epoch may begin in the middle of a pass through the data.
        """
        known = KnownBatches.of(adapter, fit.x)
        if fit.batch_size is None:
            data = _planned(fit, dataset, known, goes_on)
        else:
            sizes = Sizes(_first_size(fit, dataset, known))
            dataset = rebatched(known.once(dataset), sizes)
            if fit.elastic_run is not None:
                data = _dealt_in_sizes(fit.elastic_run, dataset, sizes)
            else:
                data = _planned(fit, dataset, KnownBatches(), goes_on)
            data.sizes, data.samples, data.steps = sizes, _counter(), _counter()
        if fit.elastic_run is not None:
            data.samples, data.steps = fit.elastic_run.samples, fit.elastic_run.steps
        return data

    def watched(self) -> tf.data.Dataset | None:
        """The dataset, which notes its first batch; None if that is known or not needed."""
        return None if self.first_batch is None else self.first_batch.watched(self.dataset)

    def warn_if_all_have_the_same(self) -> None:
        """Warns if all peers seem to train on the same data. All call it after a step."""
        if self.first_batch is not None:
            self.first_batch.warn_if_all_have_the_same()


def _planned(fit: Fit, dataset: tf.data.Dataset, known: KnownBatches, goes_on: bool) -> EvenData:
    """Data with as many batches as the peers agree on. All peers call it."""
    plan = agree(dataset, **dataclasses.asdict(known), name="fit/data")
    length = known.cardinality
    if plan.lacking:
        length = plan.length if plan.length >= 0 else None
    # Peers that ask each other for batches begin a pass together.
    begins_anew = plan.lacking and plan.length == UNKNOWN and not goes_on
    if fit.elastic_run is not None:
        # At least one batch, though the samples that are left may be too few for one.
        length = plan.length or int(not peer.is_single_process())
        run = fit.elastic_run
        dataset = even_in_each_pass(dataset, run.dealt.batches(*run.position.among), length)
    elif plan.lacking and known.cardinality is not None and plan.length >= 0:
        dataset = even_in_each_epoch(dataset, known.cardinality, plan.length)
    else:
        dataset = prolong(known.once(dataset) if begins_anew else dataset, plan, rounds_of(fit))
    is_elastic = fit.elastic_run is not None
    return EvenData(
        one_may_wait(dataset),
        length,
        counts=is_elastic or not plan.is_even,
        begins_anew=begins_anew,
        first_batch=None if is_elastic else FirstBatch(fit.x),
    )


def _dealt_in_sizes(elastic_run: ElasticRun, dataset: tf.data.Dataset, sizes: Sizes) -> EvenData:
    """Data of an elastic training in batches whose sizes change. Each peer knows all lengths."""
    if elastic_run.dealt.drops:
        raise ValueError(
            "PolicyCallback: drop_remainder=True cannot be with batches that change their "
            "size: peers might come to different numbers of them. Leave it out"
        )
    elastic_run.use_sizes(sizes)
    dataset = one_may_wait(even_where_sizes_change(dataset, sizes, elastic_run))
    return EvenData(dataset, None, counts=True, begins_anew=True)


def _first_size(fit: Fit, dataset: tf.data.Dataset, known: KnownBatches) -> int:
    """The number of samples of the first batch: the wanted one, or a known one, or a look at it."""
    size = fit.elastic_run.dealt.batch_size if fit.elastic_run else known.batch_size
    if first := fit.batch_size or size:
        return first
    if not isinstance(fit.x, tf.data.Dataset):  # a look would take the batch away
        raise ValueError(
            "PolicyCallback: how large the batches are is not known: give it batch_size=..."
        )
    return int(samples_of(next(iter(dataset))))


def _counter() -> Any:
    return tf.Variable(0, trainable=False, dtype=tf.int64)
