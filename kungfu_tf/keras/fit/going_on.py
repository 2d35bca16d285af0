"""`fit` when peers are lost or leave, and the others go on (`kungfu-run -on-failure survive`).

The core repeats the step among the survivors, so Keras notices nothing. This tells the program, and
prints in place of a lost rank 0. `taken_over.py` gives its files to the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from kungfu_tf import peer
from kungfu_tf.keras.fit.call import Fit
from kungfu_tf.upstream.callback import Callback

_log = logging.getLogger(__name__)


class GoOn(Callback):
    """Says that peers were lost, to the user and to the callbacks of the program.

    Args:
        fit: The call.
        given: The callbacks that the program gave. Those that have a method `on_membership_change`
            hear of the loss, after the batch or the epoch in which it came; also if nobody is lost,
            and connections were made anew.
        kept: The callbacks of those that work on this peer.
        verbose: Whether rank 0 prints.
    """

    def __init__(self, fit: Fit, given: Sequence[Any], kept: Sequence[Any], verbose: bool) -> None:
        super().__init__()
        self._fit = fit
        self._given = given
        self._dropped = [type(c).__name__ for c in given if c not in kept]
        self._prints = verbose and not peer.is_root()
        self._was_root = peer.is_root()
        self._version = peer.membership_version()
        self._size = peer.size()
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del logs
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del logs
        length = None if self._fit.data is None else self._fit.data.length
        self._look(None if length is None else max(0, length - 1 - batch))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._look(0)
        if self._prints and peer.is_root():
            values = " - ".join(f"{name}: {value:.4f}" for name, value in (logs or {}).items())
            print(f"Epoch {epoch + 1} - {values}", flush=True)

    def _look(self, batches_left: int | None) -> None:
        if peer.membership_version() == self._version:
            return
        lost = self._size - peer.size()
        self._version, self._size = peer.membership_version(), peer.size()
        if peer.is_root() and lost > 0:
            self._tell(lost, batches_left)
        self._was_root = peer.is_root()
        for callback in self._given:
            if hear := getattr(callback, "on_membership_change", None):
                hear()

    def _tell(self, lost: int, batches_left: int | None) -> None:
        if self._fit.elastic_run is not None:
            _log.warning(
                "fit: %d of %d peers are gone in epoch %d, and %d go on with their samples",
                *(lost, self._size + lost, self._epoch + 1, self._size),
            )
            return
        rest = "the rest" if batches_left is None else f"{batches_left} batches"
        _log.warning(
            "fit: %d of %d peers are gone in epoch %d, and %d go on. The samples of a peer that is "
            "gone are left out: %s of this epoch, and its share of later ones",
            *(lost, self._size + lost, self._epoch + 1, self._size, rest),
        )
        if self._dropped and not self._was_root:
            names = ", ".join(self._dropped)
            _log.warning("fit: rank 0 is gone, which alone had %s: they do nothing more", names)
