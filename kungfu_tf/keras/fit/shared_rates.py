"""One learning rate for all peers: rank 0's."""

from __future__ import annotations

from typing import Any

import numpy as np

from kungfu_tf import ops
from kungfu_tf.upstream import generations


def share_rates(model: Any) -> None:
    """Gives all peers rank 0's learning rates, which are not variables on all newcomers yet.

    Args:
        model: A model with one or several optimizers.
    """
    parts = [
        part
        for optimizer in generations.optimizers_of(model)
        for part in generations.parts_of(optimizer)
        if _has_rate(part)
    ]
    if not parts:
        return
    mine = np.array([np.asarray(part.learning_rate) for part in parts], np.float64)
    roots = ops.broadcast(mine, name="fit/learning_rates").numpy()
    for part, rate in zip(parts, roots, strict=True):
        part.learning_rate = float(rate)


def _has_rate(optimizer: Any) -> bool:
    """Whether it has a learning rate of its own that is no schedule.

    An optimizer that delegates to several parts shows the rate of one of them.
    """
    if len(list(generations.parts_of(optimizer))) > 1:
        return False
    legacy = vars(optimizer).get("_hyper", {})
    rate = vars(optimizer).get("_learning_rate", legacy.get("learning_rate"))
    return rate is not None and not callable(rate)
