"""The arguments of `elastic.fit`: which it can take, and the data as each peer is dealt them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import errors, peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.data.dealt import Dealt, dealt_of, has_position
from kungfu_tf.data.position import Position
from kungfu_tf.data.shares import share_of_arrays
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.arrays import as_fit_packs


def check_optimizers(model: Any) -> None:
    """Raises a FailedPreconditionError unless the optimizers let the peers train together."""
    algorithms = generations.algorithms_of_model(model)
    if not algorithms:
        raise errors.FailedPreconditionError(
            "elastic.fit: the model is not compiled with an optimizer of kungfu_tf.optimizers, so "
            "its peers do not train together"
        )
    if (group := generations.group_of_model(model)) is not None:
        raise errors.FailedPreconditionError(
            f"elastic.fit is the work of all peers, and the optimizer is that of {group}. A group "
            "trains with model.fit"
        )
    for sharded in [algorithm for algorithm in algorithms if algorithm.is_sharded]:
        raise errors.FailedPreconditionError(
            f"elastic.fit: {sharded.shards.title} deals its slots to peers that stay. Train with "
            "model.fit and BackupAndRestore, whose backups any number of peers can load; or take "
            "SynchronousSGDOptimizer"
        )
    if len({algorithm.meets is Meets.NEVER for algorithm in algorithms}) > 1:
        names = " and ".join(type(algorithm).__name__ for algorithm in algorithms)
        raise errors.FailedPreconditionError(
            f"elastic.fit: of {names}, the optimizers of this model, only some have peers that "
            "meet in each step, and the others' would not wait for them. Take optimizers of one "
            "kind"
        )


def check(given: Mapping[str, Any]) -> None:
    """Raises a ValueError for an argument of `model.fit` that `elastic.fit` cannot take."""
    for name, why in _CANNOT_BE.items():
        if given.get(name):
            raise ValueError(f"elastic.fit: {name} cannot be: {why}")


_CANNOT_BE = {
    "steps_per_epoch": "an epoch is one pass through the data",
    "validation_split": "give validation_data",
}


def deal_data(model: Any, given: dict[str, Any], initial_sample: int, seed: int) -> Dealt | None:
    """Makes a dataset of the data, in which each peer has its part.

    Args:
        model: The model that is trained.
        given: The arguments of `model.fit`, by name. The data among them become a dataset.
        initial_sample: As for `elastic.fit`.
        seed: As for `elastic.fit`.

    Returns:
        What is known of the dataset; None if it was not dealt out and the peers stay the same.

    Raises:
        TypeError: If the data are neither a dataset nor arrays.
        ValueError: If the dataset was not dealt out by `data.shard`.
    """
    x = given["x"]
    if isinstance(x, tf.data.Dataset):
        if not has_position(x):
            if peer.elastic():
                raise ValueError(
                    "elastic.fit: this dataset was not dealt out: "
                    "kungfu_tf.data.shard(samples).batch(...)"
                )
            return None
        if initial_sample:
            raise ValueError("elastic.fit: of a dataset its Position says where to begin")
        given["shuffle"] = False  # the order is that of the dataset
        return dealt_of(x)
    parts = [p for p in tf.nest.flatten(x) if p is not None]
    if not parts or not all(isinstance(p, (np.ndarray, tf.Tensor)) for p in parts):
        raise TypeError(
            f"elastic.fit: a dataset, arrays or tensors are needed, not {type(x).__name__}"
        )
    position = Position(epoch=int(given["initial_epoch"]), sample=initial_sample)
    package = generations.package_of(model)
    batch = as_fit_packs(package, x, given["y"], given["sample_weight"])
    shuffle, size = bool(given["shuffle"]), int(given["batch_size"] or _BATCH_SIZE)
    dataset = share_of_arrays(batch, position, size, shuffle=shuffle, seed=seed)
    given.update(x=dataset, y=None, sample_weight=None, batch_size=None, shuffle=False)
    return dealt_of(dataset)


_BATCH_SIZE = 32  # as Keras has it
