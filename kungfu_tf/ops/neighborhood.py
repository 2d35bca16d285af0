"""Whom a peer exchanges data with in an operation of neighbours, as the kernels take it."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.ops import topology as ranks_and_sizes
from kungfu_tf.topology import Topology, base_graph


@dataclasses.dataclass(frozen=True)
class Neighborhood:
    """A peer's neighbours in an operation, with their weights.

    Attributes:
        self_weight: float64.
        sources: int32 [sources].
        source_weights: float64 [sources].
        targets: int32 [targets].
        target_weights: float64 [targets].
        agree: An int64 that must be the same on all peers.
        topology: What messages call it.
    """

    self_weight: Any
    sources: Any
    source_weights: Any
    targets: Any
    target_weights: Any
    agree: Any
    topology: str = dataclasses.field(default="", kw_only=True)

    def transposed(self) -> Neighborhood:
        """That in which data go the other way, with the same weights."""
        return dataclasses.replace(
            self,
            sources=self.targets,
            source_weights=self.target_weights,
            targets=self.sources,
            target_weights=self.source_weights,
        )

    def inputs(self) -> list[Any]:
        """The inputs of the kernel, in their order."""
        numbers = [self.self_weight, self.sources, self.source_weights]
        return [*numbers, self.targets, self.target_weights, self.agree]


def neighborhood(
    what: str,
    topology: Topology | None,
    step: Any,
    self_weight: Any,
    src_weights: Any,
    dst_weights: Any,
) -> Neighborhood:
    """Of a topology's step, or of given weights, as `neighbor_all_reduce` takes them.

    Args:
        what: The operation, for messages.
        topology: As there.
        step: As there.
        self_weight: As there.
        src_weights: As there.
        dst_weights: As there.

    Raises:
        InvalidArgumentError: If there are both a topology and weights, or some weights only.
    """
    if not check_given(what, topology, self_weight, src_weights, dst_weights):
        return _of_topology(topology or base_graph(), step)
    sources, source_weights = _ranks_and_weights(src_weights)
    targets, target_weights = _ranks_and_weights(
        (sources, ones(sources)) if dst_weights is None else dst_weights
    )
    return Neighborhood(
        numbers(self_weight, tf.float64),
        sources,
        source_weights,
        targets,
        target_weights,
        tf.zeros([], tf.int64),
    )


def check_given(
    what: str, topology: Topology | None, self_weight: Any, src_weights: Any, dst_weights: Any
) -> bool:
    """Whether weights are given, and not a topology.

    Raises:
        InvalidArgumentError: If there are both, or some weights only.
    """
    given = [weight is not None for weight in (self_weight, src_weights, dst_weights)]
    if topology is not None and any(given):
        raise errors.InvalidArgumentError(f"{what}: weights come from a topology, or are given")
    if any(given) and not all(given[:2]):
        raise errors.InvalidArgumentError(
            f"{what}: without a topology, the own weight and the sources must be given"
        )
    return any(given)


def _ranks_and_weights(given: Any) -> tuple[Any, Any]:
    """Two vectors, out of a dict, a tuple of both, or ranks alone."""
    if isinstance(given, Mapping):
        ranks, weights = list(given), list(given.values())
    elif isinstance(given, tuple):
        ranks, weights = given
    else:
        ranks, weights = given, ones(given)
    return _vector(ranks, tf.int32), _vector(weights, tf.float64)


def _vector(values: Any, dtype: tf.DType) -> Any:
    return tf.reshape(numbers(values, dtype), [-1])


def numbers(values: Any, dtype: tf.DType) -> Any:
    """Numbers as a tensor. TensorFlow alone would round Python's to float32 first."""
    if tf.is_tensor(values):
        return tf.cast(values, dtype)
    given = list(values) if isinstance(values, Iterable) else values
    if any(map(tf.is_tensor, given if isinstance(given, list) else [])):
        return tf.stack([tf.cast(value, dtype) for value in given])
    return tf.constant(np.asarray(given, dtype.as_numpy_dtype))


def ones(ranks: Any) -> Any:
    """A weight of 1 for each rank."""
    return tf.ones(tf.size(_vector(ranks, tf.int32))[tf.newaxis], tf.float64)


def _of_topology(topology: Topology, step: Any) -> Neighborhood:
    """Its matrix is looked up when the operation runs: it is right after a resize, too."""
    where = [tf.cast(step, tf.int64), ranks_and_sizes.rank(), ranks_and_sizes.cluster_size()]

    def look_up(step: Any, rank: Any, size: Any) -> tuple[Any, ...]:
        of_cycle = int(step) % topology.length(int(size))
        return fields_of(topology, of_cycle, int(rank), int(size))

    kinds = [tf.float64, tf.int32, tf.float64, tf.int32, tf.float64, tf.int64]
    found = tf.numpy_function(look_up, where, kinds)
    for value, shape in zip(found, ([], [None], [None], [None], [None], []), strict=True):
        value.set_shape(shape)
    return Neighborhood(*found, topology=repr(topology))


@functools.lru_cache(maxsize=1024)
def fields_of(topology: Topology, step: int, rank: int, size: int) -> tuple[Any, ...]:
    """The fields of a `Neighborhood`. Targets get the plain value, which they weight themselves."""
    mine = topology.neighbors(step, rank, size)
    digest = hashlib.blake2b(topology.at(step, size).tobytes(), digest_size=8).digest()
    return (
        np.float64(mine.self_weight),
        np.array(list(mine.sources), np.int32),
        np.array(list(mine.sources.values()), np.float64),
        np.array(list(mine.targets), np.int32),
        np.ones(len(mine.targets)),
        np.int64(int.from_bytes(digest, "little", signed=True)),
    )
