"""What trains otherwise than the program means, without an error: there is a warning."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import _keras, peer
from kungfu_tf._warn import warn
from kungfu_tf.initializer import first_step


def warn_of_sums(model: Any) -> None:
    """Warns, on rank 0, if a loss of `model` adds up what others average."""
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


def warn_if_not_wrapped(model: Any) -> None:
    """Warns, on rank 0 of several, if each peer trains a `model` of its own."""
    if peer.alone() or not peer.is_root() or _keras.has_own_train_step(model):
        return
    first_step.warn_not_distributed(model)
