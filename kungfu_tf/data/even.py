"""Prolongs datasets of different lengths to one length, with empty batches.

The peers first tell each other the lengths of their datasets (`agree`). If all lengths are known,
each peer adds the batches that it lacks, and no more exchange is needed. If a length is unknown,
the pipelines of all peers ask each other whether any of them has another (`rounds.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.context import ordinals
from kungfu_tf.data import order
from kungfu_tf.data.dealt import batches_of
from kungfu_tf.data.empty import check_dataset, empty_batches, like_the_last, samples_of, stand_in
from kungfu_tf.data.rounds import EACH_BATCH, Rounds, in_turn, while_anybody_has_one
from kungfu_tf.data.threads import one_may_wait

UNKNOWN = tf.data.UNKNOWN_CARDINALITY
_INFINITE = tf.data.INFINITE_CARDINALITY


def even(
    dataset: tf.data.Dataset, *, cardinality: int | None = None, name: str = "even"
) -> tf.data.Dataset:
    """Returns this peer's batches with their numbers of samples, as many batches on all peers.

    It is for training loops of your own. `fit` does the same by itself. A peer that has run out of
    batches gets stand-ins until all peers are done: batches of one sample that is all zeros, with
    the number 0. So each peer takes part in every step, and none waits in vain. If the tape is
    given the number, the gradients of a stand-in have the weight 0.

    All peers call it in the same order, and go through the result equally often. If the number of
    batches of a peer is unknown (a generator, a filter), the pipelines ask each other whether any
    peer has another batch, whenever one is taken. Then all peers must leave a loop after the same
    batch. A peer that continues alone gets an error, at the latest after KUNGFU_COLLECTIVE_TIMEOUT.
    A `prefetch` of the result asks ahead, and the strategy must not be changed meanwhile.

    The loop itself must undo the effect of a stand-in on moving statistics and metrics.

    Args:
        dataset: A dataset of batches: nested dense, ragged or sparse tensors whose first dimension
            counts samples. The number of dimensions must be known.
        cardinality: The number of batches, if the dataset does not know it.
        name: The same on every peer.

    Returns:
        A dataset of pairs: the number of samples, an int64 scalar, and the batch. If the dataset of
        one peer never ends, none does.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`, or there is no empty form of a
            component.
        ValueError: If a component has no first dimension, or an unknown number of dimensions.

    Example:

    ```python
    for samples, (x, y) in kf.data.even(dataset):
        with kf.DistributedGradientTape(tf.GradientTape(), samples=samples) as tape:
            loss = loss_of(model(x), y)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    ```
    """
    check_dataset(dataset)
    if not peer.is_single_process():
        plan = agree(dataset, cardinality=cardinality, name=name)
        dataset = prolong(dataset, plan)
    return with_counts(dataset)


def with_counts(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """A dataset of pairs: the number of samples of a batch, and the batch or its stand-in."""

    @tf.autograph.experimental.do_not_convert
    def count(batch: Any) -> tuple[Any, Any]:
        samples = samples_of(batch)
        return samples, stand_in(batch, samples)

    return one_may_wait(in_turn(dataset, count))


@dataclasses.dataclass(frozen=True)
class Plan:
    """What all peers know of their datasets.

    Attributes:
        name: The name of this plan, the same on all peers.
        batches: The number of batches of each rank, or `INFINITE_CARDINALITY` or
            `UNKNOWN_CARDINALITY` of tf.data.
        same_sizes: Whether the batches of a step are known to have one size on all peers that have
            one.
    """

    name: str
    batches: tuple[int, ...]
    same_sizes: bool

    @property
    def is_even(self) -> bool:
        """Whether the datasets can stay as they are, and the plain mean over peers is right."""
        return self.same_sizes and not self.lacking

    @property
    def lacking(self) -> bool:
        """Whether a peer has, or may have, fewer batches than another."""
        return UNKNOWN in self.batches or len(set(self.batches)) > 1

    @property
    def length(self) -> int:
        """The number of batches of each prolonged dataset."""
        for special in (UNKNOWN, _INFINITE):
            if special in self.batches:
                return special
        return max(self.batches)


def agree(
    dataset: tf.data.Dataset,
    *,
    cardinality: int | None = None,
    batch_size: int | None = None,
    samples: int | None = None,
    name: str = "even",
) -> Plan:
    """Collects what all peers know of their datasets. Eager; all peers call it.

    Args:
        dataset: A dataset of batches, as for `even`.
        cardinality: The number of batches, if the dataset does not know it.
        batch_size: The size of all batches but perhaps the last, if the dataset does not know it.
        samples: The number of samples of all batches, if it is known.
        name: The same on every peer.

    Raises:
        ValueError: On every peer, if `data.shard` deals from different orders.
    """
    if cardinality is None:
        cardinality = batches_of(dataset)
    if cardinality is None:
        cardinality = int(dataset.cardinality())
    static = _static_batch_size(dataset.element_spec)
    if static is None:
        sizes = [-1, -1] if batch_size is None or samples is None else [batch_size, samples]
    else:
        sizes = [static, static * cardinality]
    mine = [ordinals.plans.next, order.digest_of(dataset), cardinality, *sizes]
    rows = ops.all_gather(np.array(mine, np.int64), name=f"{name}/agree").numpy()
    # The same on all peers, even if one of them came less far than others the last time.
    ordinals.plans.next = int(rows[:, 0].max())
    order.check_same(rows[:, 1].tolist())
    same_sizes = bool((rows[:, 3:] == rows[0, 3:]).all() and rows[0, 3] >= 0)
    return Plan(f"{name}/{ordinals.plans.take()}", tuple(map(int, rows[:, 2])), same_sizes)


def _static_batch_size(element_spec: Any) -> int | None:
    first = next(iter(tf.nest.flatten(element_spec)))
    shape = getattr(first, "shape", None)
    size: int | None = shape.as_list()[0] if shape is not None and shape.rank else None
    return size


def prolong(dataset: tf.data.Dataset, plan: Plan, rounds: Rounds = EACH_BATCH) -> tf.data.Dataset:
    """The dataset, prolonged to the length of the plan.

    Args:
        dataset: The dataset given to `agree`.
        plan: The result of `agree`.
        rounds: When to ask for more batches, if the length is unknown.
    """
    if not plan.lacking:
        return dataset
    empty = empty_batches(dataset.element_spec)
    if plan.length == UNKNOWN:
        return like_the_last(while_anybody_has_one(dataset, empty, rounds, f"{plan.name}/more"))
    mine = plan.batches[peer.rank()]
    if mine == _INFINITE:
        return dataset
    if plan.length == _INFINITE:
        return like_the_last(dataset.concatenate(empty))
    if mine < plan.length:
        dataset = like_the_last(dataset.concatenate(empty.take(plan.length - mine)))
    return dataset.apply(tf.data.experimental.assert_cardinality(plan.length))
