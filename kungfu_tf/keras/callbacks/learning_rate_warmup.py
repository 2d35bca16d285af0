"""Linear scaling of the learning rate, reached gradually."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kungfu_tf import peer
from kungfu_tf.keras.callbacks.learning_rate import LearningRateCallback
from kungfu_tf.upstream import warn


class LearningRateWarmupCallback(LearningRateCallback):
    """Raises the learning rate batch by batch to `size` times the one of a single process.

    With N peers a batch is N times as large, and takes N times the learning rate (linear scaling).
    From the first step on that is often too much, so the rate grows to it:

    ```
    rate = initial_lr · (1 + (size − 1) · p)
    p    = batches so far / batches of warmup_epochs, at most 1
    ```

    From epoch `warmup_epochs` on the callback leaves the rate alone. Others may then lower it:
    ReduceLROnPlateau, a `LearningRateScheduleCallback` from that epoch on, or a scheduler behind
    this callback in the list. Make the optimizer with `scale_learning_rate(initial_lr)`, so that a
    program that starts in a later epoch has the right rate as well. An optimizer with `initial_lr`
    itself gives a warning: that may be a rate that was scaled before, as Horovod's callback of this
    name takes it.

    The rate is set before a batch; with `steps_per_execution` before the first of so many. The
    momentum of SGD is not corrected for the change. In the epochs' logs the rate is called
    `learning_rate` (Keras 3) or `lr` (Keras 2, tf-keras), as with Keras' LearningRateScheduler. In
    a process that is alone it is `initial_lr`. `size` is the N of `scale_learning_rate`.

    An optimizer that follows a schedule, or several in one, get their warm-up by
    `scale_learning_rate`.

    Args:
        initial_lr: The rate that one process would train with; not yet scaled.
        warmup_epochs: Epochs until the rate is `size` times as much; 0: from the start.
        steps_per_epoch: Batches of an epoch on this peer, if `fit` cannot know before its end.

    Raises:
        TypeError: If a rate or a multiplier is not a number.
        ValueError: If an argument is out of its range.
        ValueError: From `fit`, if the optimizer has no rate that can be set, or the number of
            batches is not known.

    References:
        - Goyal et al., *Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour*, 2017
          (arXiv:1706.02677), sections 2.1 and 2.2

    Example:

    ```python
    rate = kf.callbacks.scale_learning_rate(0.1)
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(rate))
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(dataset, epochs=90, callbacks=[kf.callbacks.LearningRateWarmupCallback(0.1)])
    ```
    """

    def __init__(
        self, initial_lr: float, *, warmup_epochs: int = 5, steps_per_epoch: int | None = None
    ) -> None:
        super().__init__(initial_lr, steps_per_epoch=steps_per_epoch)
        if not isinstance(warmup_epochs, int) or warmup_epochs < 0:
            raise ValueError(
                "LearningRateWarmupCallback: warmup_epochs must be a number of whole epochs, "
                f"not {warmup_epochs!r}"
            )
        self.warmup_epochs = warmup_epochs

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Checks, before the first change, whether the rate may have been scaled already."""
        # After a change of the peers the rate is that of the previous ones.
        if epoch == 0 and peer.size() > 1 and peer.membership_version() == 0:
            self._check_unscaled()
        super().on_epoch_begin(epoch, logs)

    def _check_unscaled(self) -> None:
        rate = float(np.asarray(self._optimizer().learning_rate))
        if not math.isclose(rate, self.initial_lr, rel_tol=1e-6):  # it is a float32
            return
        warn.warn(
            f"LearningRateWarmupCallback: the optimizer has the learning rate {self.initial_lr:g}, "
            f"which is initial_lr, too, and will get {self._rate(1.0):g}, {peer.agreed_size()} "
            "times as much. initial_lr is the rate of one process, not scaled. If it is, make the "
            f"optimizer with scale_learning_rate({self.initial_lr:g})"
        )

    def rate_of_epoch(self, epoch: int) -> float | None:
        """The scaled rate, in the epoch after the warm-up."""
        return self._rate(1.0) if epoch == self.warmup_epochs else None

    def rate_of_batch(self, epoch: int, batch: int) -> float | None:
        """The next rate on the way to the scaled one."""
        if epoch >= self.warmup_epochs:
            return None
        return self._rate(self._position(epoch, batch) / self.warmup_epochs)

    def _rate(self, progress: float) -> float:
        return self.initial_lr * (1 + (peer.agreed_size() - 1) * progress)
