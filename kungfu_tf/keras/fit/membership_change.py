"""The last callback of `fit` in an elastic training: it leaves `fit` when peers come or go."""

from __future__ import annotations

from typing import Any

from kungfu_tf.keras.fit.elastic_run import ElasticRun
from kungfu_tf.keras.fit.shared_rates import share_rates
from kungfu_tf.membership.failing_together import LeaveTogether
from kungfu_tf.replicas import average
from kungfu_tf.replicas.moving_statistics import average_statistics
from kungfu_tf.upstream.callback import Callback


class MembershipChange(LeaveTogether):
    """Raised on all peers at the same place, to leave `fit` because the membership changes."""


class LeaveOnChange(Callback):
    """Leaves `fit` after a step if the membership changes.

    Args:
        elastic_run: The training that this call of `fit` is a part of.
        differs: Whether each peer trains a model of its own.
    """

    def __init__(self, elastic_run: ElasticRun, differs: bool) -> None:
        super().__init__()
        self._elastic_run = elastic_run
        self._differs = differs
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del logs
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del batch, logs
        elastic_run = self._elastic_run
        if elastic_run.is_warming_up:
            raise MembershipChange
        if elastic_run.leaves_fit(self.model, self._epoch):
            self._share_state()
            raise MembershipChange

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Gives all peers rank 0's learning rate: a newcomer's callbacks may set another one."""
        del epoch, logs
        share_rates(self.model)

    def _share_state(self) -> None:
        """Gives the present peers one state, so that rank 0 can pass it on to newcomers."""
        if self._differs:
            average.share_models(self.model, name="fit/change")
        else:
            average_statistics(self.model)
        average.share_state(self.model)
        self._elastic_run.metrics.keep(self.model)
