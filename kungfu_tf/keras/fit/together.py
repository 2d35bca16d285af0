"""Our own callbacks of a `fit` that all peers share: its beginning, its epochs and its end."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from kungfu_tf import ops, peer
from kungfu_tf.keras.fit import loss_means
from kungfu_tf.keras.fit.call import Fit
from kungfu_tf.keras.fit.counted_step import build_metrics
from kungfu_tf.keras.fit.first_epoch import share_first_epoch
from kungfu_tf.keras.fit.meetings import last_meetings, share_steps
from kungfu_tf.keras.fit.saves import before_backup
from kungfu_tf.keras.verify.steps import Verification
from kungfu_tf.replicas import first_step
from kungfu_tf.replicas.average import average_variables, share_models, share_state
from kungfu_tf.replicas.moving_statistics import average_statistics
from kungfu_tf.upstream.callback import Callback

_log = logging.getLogger(__name__)


class ShareState(Callback):
    """Gives the peers a common state before the other callbacks see it, or save it.

    At an epoch's end these are moving statistics, and the average of models that differ.
    """

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        self._fit = fit
        self._verification = Verification(fit.model, loss_means.counting)

    def on_train_begin(self, logs: Any = None) -> None:
        """Prepares the first step: the metrics, the comparison with one process, a warning."""
        del logs
        model, data = self.model, self._fit.data
        model.train_function.kungfu_counts_samples = data is not None and data.counts

        def first(train_function: Any, iterator: Any) -> Any:
            if self._fit.own_parts:
                self._fit.own_parts.restore()
            if data and data.counts:
                build_metrics(model, data.dataset.element_spec)
            iterator = self._verification.before_step(iterator)
            logs = train_function(iterator)
            if data:
                data.warn_if_all_have_the_same()
            return logs

        first_step.around(model, first)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del epoch, logs
        average_statistics(self.model)
        before_backup(self._fit)
        if self._fit.differs:
            self._fit.average.enter_context(average_variables(self.model))

    def on_train_end(self, logs: Any = None) -> None:
        """Gives all peers the model of their training, such as the average of their models."""
        del logs
        self._verification.end()
        if self._fit.differs:
            share_models(self.model, name="fit/average")
        share_state(self.model)
        if self._fit.own_parts:
            self._fit.own_parts.remove()


class StopTogether(Callback):
    """Lets all peers start at the same step, and stop if one does. Runs after other callbacks."""

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        self._fit = fit

    def on_train_begin(self, logs: Any = None) -> None:
        del logs
        share_first_epoch(self.model)
        share_steps(self._fit)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Stops all peers if a callback has asked for it. Keras itself looks after a batch."""
        del logs
        self._epoch = epoch
        self._agree(f"at the beginning of epoch {epoch + 1}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del logs
        self._fit.average.close()
        self._agree(f"at the end of epoch {epoch + 1}")

    def _agree(self, when: str) -> None:
        mine = np.array([bool(self.model.stop_training)], np.uint8)
        if not ops.all_reduce(mine, op="max", name="fit/stop").numpy().any():
            return
        self.model.stop_training = True
        ranks = np.flatnonzero(ops.all_gather(mine, concat=True, name="fit/who_stops").numpy())
        if len(ranks) < peer.size() and peer.is_root():
            who = peer.names_of(ranks.tolist())
            _log.warning("fit: all peers stop %s, because %s does", when, who)


class StopTogetherAtOnce(StopTogether):
    """`StopTogether` that also stops after a batch. Batches count from 0, as Keras counts."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del logs
        self._agree(f"after batch {batch} of epoch {self._epoch + 1}")


class StopTogetherAtMeetings(StopTogether):
    """`StopTogether` that also stops at meetings, for peers that do not meet after each batch.

    Until then a peer continues that wants to stop, because the others await it at the meeting.
    """

    def __init__(self, fit: Fit) -> None:
        super().__init__(fit)
        self._last: list[int] = []
        self._wants_to_stop = False

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        self._last = last_meetings(self._fit)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del logs
        self._put_off()
        before, self._last = self._last, last_meetings(self._fit)
        if self._last != before:
            self._agree(f"after batch {batch} of epoch {self._epoch + 1}")

    def _agree(self, when: str) -> None:
        self._put_off()
        self.model.stop_training = self._wants_to_stop
        super()._agree(when)

    def _put_off(self) -> None:
        self._wants_to_stop |= bool(self.model.stop_training)
        self.model.stop_training = False
