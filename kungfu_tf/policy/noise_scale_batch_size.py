"""Lets the batch size follow the noise in the gradients."""

from __future__ import annotations

import statistics

from kungfu_tf.policy.batch_size import BatchSizePolicy
from kungfu_tf.policy.training import Training


class NoiseScaleBatchSizePolicy(BatchSizePolicy):
    """Doubles or halves the batch size, towards the gradient noise scale (McCandlish et al., 2018).

    Below the noise scale, doubling the batch makes steps nearly twice as good; above it, the extra
    samples are wasted. The noise scale grows while a model learns, and the batch size with it:

    ```
    every `interval` steps, with n peers of batch size b, and the median noise scale s:
    if s / n ≥ 2·b: b ← 2·b        # at most max_batch_size
    if s / n ≤ b/2: b ← b/2        # at least min_batch_size
    learning rate ← learning rate · new b / old b       # or its square root, or none
    ```

    Train with `MonitorGradientNoiseScaleOptimizer`, on at least two peers; otherwise nothing
    happens. A single measurement says little, and less the smaller the batch. The median ignores
    measurements that are far too large because the gradient was lost in the noise.

    `fit` first trains on the batches that it has read ahead: within an epoch, at least 6 more steps
    have the previous size. The learning rate changes at once.

    Args:
        max_batch_size: The largest batch of one peer.
        min_batch_size: The smallest.
        interval: How often it decides, in steps.
        scale_learning_rate: "linear" (for SGD), "sqrt" (for Adam and the like) or "none".

    Raises:
        ValueError: If an argument is out of range.

    Example:

    ```python
    policy = kf.policy.NoiseScaleBatchSizePolicy(1024)
    model.fit(dataset, callbacks=[kf.callbacks.PolicyCallback([policy])])
    ```
    """

    def __init__(
        self,
        max_batch_size: int,
        *,
        min_batch_size: int = 1,
        interval: int = 100,
        scale_learning_rate: str = "linear",
    ) -> None:
        super().__init__(scale_learning_rate=scale_learning_rate)
        if not 1 <= min_batch_size <= max_batch_size:
            raise ValueError(
                "NoiseScaleBatchSizePolicy: batch sizes are from 1 up, not from "
                f"{min_batch_size!r} to {max_batch_size!r}"
            )
        if interval < 1:
            raise ValueError(
                f"NoiseScaleBatchSizePolicy: interval is a number of steps, not {interval!r}"
            )
        self.max_batch_size = max_batch_size
        self.min_batch_size = min_batch_size
        self.interval = interval
        self._measured: list[float] = []  # since the last decision

    def before_train(self, training: Training) -> None:
        """Forgets an earlier training."""
        self._measured.clear()

    def after_step(self, training: Training) -> None:
        """Notes the noise scale, and acts on it when it is time."""
        scale = training.noise_scale
        if scale is not None:
            self._measured.append(scale)
        if not self._measured or not training.has_made(self.interval):
            return
        size, wanted = training.batch_size, statistics.median(self._measured) / training.size
        self._measured.clear()
        if wanted >= 2 * size:
            self.change(training, min(2 * size, self.max_batch_size))
        elif wanted <= size / 2:
            self.change(training, max(size // 2, self.min_batch_size))
