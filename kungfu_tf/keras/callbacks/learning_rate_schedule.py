"""The learning rate as a function of the epoch."""

from __future__ import annotations

from collections.abc import Callable

from kungfu_tf.keras.callbacks.learning_rate import LearningRateCallback, number


class LearningRateScheduleCallback(LearningRateCallback):
    """Sets the learning rate to a multiple of `initial_lr` in some epochs, and leaves it in others.

    ```
    rate = initial_lr · multiplier(epoch)                         # staircase
    rate = initial_lr · multiplier(epoch + batch / batches)       # not staircase
    ```

    Nothing is scaled by the number of peers: give `scale_learning_rate(lr)` for that. Several of
    these in one list, each for its epochs, follow one another. As with
    `LearningRateWarmupCallback`, the rate is in the epochs' logs, and the momentum of SGD is not
    corrected for the change. The optimizer must have one rate, and no schedule of its own.

    Args:
        initial_lr: The rate that is multiplied.
        multiplier: A number, or a function: of the epoch, an integer, if `staircase`; else of the
            number of epochs that have gone by, with a fraction.
        start_epoch: The first epoch, counted from 0 as in `fit`, in which the rate is set.
        end_epoch: The first in which it is no longer set; None: there is none.
        staircase: Set it when an epoch begins; else before each batch (with `steps_per_execution`
            before the first of so many).
        steps_per_epoch: Batches of an epoch on this peer, if `fit` cannot know before its end; only
            needed without `staircase`.

    Raises:
        TypeError: If a rate or a multiplier is not a number.
        ValueError: If an argument is out of its range.
        ValueError: From `fit`, if the optimizer has no rate that can be set, or the number of
            batches is needed and not known.

    Example:

    ```python
    rate = kf.callbacks.scale_learning_rate(0.1)
    callbacks = [
        kf.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=5),
        kf.callbacks.LearningRateScheduleCallback(rate, 1.0, start_epoch=5, end_epoch=30),
        kf.callbacks.LearningRateScheduleCallback(
            rate, lambda epoch: 0.1 ** (epoch // 30), start_epoch=30
        ),
    ]
    ```
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        *,
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__(initial_lr, steps_per_epoch=steps_per_epoch)
        if end_epoch is not None and end_epoch < start_epoch:
            raise ValueError(
                f"LearningRateScheduleCallback: end_epoch {end_epoch} lies before start_epoch "
                f"{start_epoch}"
            )
        self._multiplier = multiplier if callable(multiplier) else _constant(multiplier)
        self._by_epoch = staircase or not callable(multiplier)
        self._start, self._end = start_epoch, end_epoch

    def rate_of_epoch(self, epoch: int) -> float | None:
        """Returns the multiplier of the whole epoch, if it has one."""
        return self._rate(epoch) if self._by_epoch and self._sets_in(epoch) else None

    def rate_of_batch(self, epoch: int, batch: int) -> float | None:
        """Returns the multiplier of the batch, if it has one."""
        if self._by_epoch or not self._sets_in(epoch):
            return None
        return self._rate(self._position(epoch, batch))

    def _sets_in(self, epoch: int) -> bool:
        return self._start <= epoch and (self._end is None or epoch < self._end)

    def _rate(self, epoch: float) -> float:
        what = f"LearningRateScheduleCallback: multiplier({epoch:g})"
        return self.initial_lr * number(what, self._multiplier(epoch))


def _constant(multiplier: float) -> Callable[[float], float]:
    checked = number("LearningRateScheduleCallback: multiplier", multiplier)
    return lambda _epoch: checked
