"""All peers begin in the epoch that BackupAndRestore has found on rank 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kungfu_tf.keras.fit import agreement
from kungfu_tf.keras.fit.call import current
from kungfu_tf.upstream import generations


def share_first_epoch(model: Any) -> None:
    """Keras 3: gives all peers the epoch that rank 0's callbacks have written into the model."""
    if generations.package_of(model).generation == 3:
        (epoch,) = agreement.from_root([model._initial_epoch or 0])
        model._initial_epoch = epoch or None


def first_epoch_and_step(original: Callable[..., Any], model: Any, *args: Any) -> Any:
    """Keras 2: the method that asks the model for the epoch, after callbacks have begun."""
    fit = current()
    if fit is not None and fit.elastic_run is not None:  # the training knows its epoch
        return args[1], 0
    counters = original(model, *args)
    is_shared = fit is not None and fit.is_shared
    return tuple(agreement.from_root(counters)) if is_shared else counters
