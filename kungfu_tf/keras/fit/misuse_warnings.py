"""Warnings for programs that would train in another way than is meant, without an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.keras.fit.call import current
from kungfu_tf.replicas import first_step
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.warn import warn


def warn_of_sums(model: Any) -> None:
    """Warns on rank 0 if a loss of `model` adds up the losses of samples instead of averaging."""
    if not peer.is_root():
        return
    for loss in tf.nest.flatten(getattr(model, "loss", None)):
        if getattr(loss, "reduction", None) == "sum":
            warn(
                f"{type(loss).__name__}(reduction='sum') adds up the losses of a batch's samples, "
                "and gradients are averaged over the peers as if it were a mean: a step is not the "
                "one that a single process takes. Use reduction='sum_over_batch_size', and a "
                "learning rate that is as many times as high as the batch of all peers is large"
            )


def reduce_weighted_values(
    original: Callable[..., Any],
    values: Any,
    sample_weight: Any = None,
    mask: Any = None,
    reduction: Any = "sum_over_batch_size",
    dtype: Any = None,
) -> Any:
    """Keras 3: warns of a loss that is not divided by the number of samples."""
    if mask is not None and reduction in ("sum_over_batch_size", "mean"):
        _warn_of_divisor("what its mask leaves")
    elif reduction == "mean_with_sample_weight" and (mask, sample_weight) != (None, None):
        _warn_of_divisor("the sum of its weights (reduction='mean_with_sample_weight')")
    return original(values, sample_weight, mask, reduction, dtype)


def apply_valid_mask(
    original: Callable[..., Any], losses: Any, weights: Any, mask: Any, reduction: Any
) -> Any:
    """Keras 2: warns of a loss that is not divided by the number of samples."""
    if mask is not None and reduction in ("auto", "sum_over_batch_size"):
        _warn_of_divisor("what its mask leaves")
    return original(losses, weights, mask, reduction)


def _warn_of_divisor(divisor: str) -> None:
    """Warns on rank 0, once in a `fit` that all peers share."""
    fit = current()
    if fit is None or not fit.is_shared or fit.has_warned_of_divisor:
        return
    if peer.is_single_process() or not peer.is_root():
        return
    fit.has_warned_of_divisor = True
    warn(
        f"a loss of '{fit.model.name}' is divided by {divisor} in a peer's own batch, while "
        "gradients are averaged over the peers by their numbers of samples: where the batches "
        "differ in that, a step is not quite the one that a single process takes. Exact are losses "
        "that are divided by all elements: give a sample_weight of 0 and 1 instead of a mask, with "
        "reduction='sum_over_batch_size'"
    )


def warn_if_not_wrapped(model: Any) -> None:
    """Warns on rank 0 of several peers if each peer trains a model of its own."""
    if peer.is_single_process() or not peer.is_root() or generations.has_own_train_step(model):
        return
    first_step.warn_not_distributed(model)
