"""The last comparison of the peers in a `fit`, after all other callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kungfu_tf import peer
from kungfu_tf.keras.callbacks.broadcast import BroadcastGlobalVariablesCallback
from kungfu_tf.keras.fit.call import Fit
from kungfu_tf.replicas import first_step
from kungfu_tf.replicas.average import averaged_variables
from kungfu_tf.replicas.equality import check_equal
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback

_WHEN = "when training has ended, after the callbacks' on_train_end"


class LastCheck(Callback):
    """The very last callback: finds weights that another callback has changed on some peers."""

    def __init__(self, fit: Fit, callbacks: Sequence[Any]) -> None:
        super().__init__()
        self._callbacks = callbacks
        self._is_equal = fit.differs  # such a `fit` ends with the average of all models

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """From the first step on the peers are equal."""
        del batch, logs
        self._is_equal = True

    def on_train_end(self, logs: Any = None) -> None:
        """Compares the peers."""
        del logs
        if self._is_equal:
            check_at_end(self.model, self._callbacks)


def check_at_end(model: Any, callbacks: Sequence[Any]) -> None:
    """Raises a DivergenceError, on every peer, if the model is no longer the same on all.

    Args:
        model: The model that was trained.
        callbacks: The callbacks of this `fit`. If one of them does not compare, neither does this.
    """
    ours = [c for c in callbacks if isinstance(c, BroadcastGlobalVariablesCallback)]
    if peer.is_single_process() or any(c.check_every is None for c in ours):
        return
    algorithms = generations.algorithms_of_model(model)
    keep_equal = all(algorithm.keeps_equal for algorithm in algorithms)
    variables = first_step.equal_variables(model) if keep_equal else averaged_variables(model)
    check_equal(variables, _WHEN, repairs_rounding=any(c.repairs_rounding for c in ours))
