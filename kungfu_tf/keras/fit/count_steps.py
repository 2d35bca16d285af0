"""The first callback of `fit` in an elastic training: it counts steps."""

from __future__ import annotations

from typing import Any

from kungfu_tf import peer
from kungfu_tf.keras.fit.elastic_run import ElasticRun
from kungfu_tf.keras.fit.shared_rates import share_rates
from kungfu_tf.upstream.callback import Callback


class CountSteps(Callback):
    """Commits each step before the other callbacks see it.

    Args:
        elastic_run: The training that this call of `fit` is a part of.
    """

    def __init__(self, elastic_run: ElasticRun) -> None:
        super().__init__()
        self._elastic_run = elastic_run
        self._shares_rates = False

    def on_train_begin(self, logs: Any = None) -> None:
        del logs
        self._shares_rates = self._elastic_run.step > 0 and not peer.is_single_process()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del logs
        elastic_run = self._elastic_run
        if elastic_run.position.epoch != epoch:  # a callback has found another in a checkpoint
            elastic_run.begin(epoch)
        if elastic_run.has_begun:
            elastic_run.metrics.put_back(self.model)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Gives all peers rank 0's learning rates, which come before its other variables."""
        del batch, logs
        if self._shares_rates:
            share_rates(self.model)
            self._shares_rates = False
        self._elastic_run.announce_news()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del batch, logs
        self._elastic_run.commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del logs
        self._elastic_run.begin(epoch + 1)
