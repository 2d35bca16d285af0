"""Lets the batch size follow what a second of training is worth."""

from __future__ import annotations

import statistics

import numpy as np
import numpy.typing as npt

from kungfu_tf.policy.batch_size import BatchSizePolicy
from kungfu_tf.policy.training import Training

_LEAST_GAIN = 1.05  # of a change: the times of steps vary
Numbers = npt.NDArray[np.float64]


class GoodputPolicy(BatchSizePolicy):
    """Chooses the batch size that learns most in a second (as Pollux does).

    Larger batches make better use of the machines, since a part of a step takes as long for any
    batch, such as the exchange. But a sample of a large batch is worth less: that is what the
    gradient noise scale tells. The product of both is the goodput:

    ```
    every `interval` steps, with n peers and the median noise scale s:
        t(b) = α + β·b                                  # the time of a step, fitted to those seen
        goodput(b) = n·b/t(b) · (s + n·b₀)/(s + n·b)    # b₀: the first batch size
        b ← the best size from b/2 to 2·b               # if it is better by 5 %
        learning rate ← learning rate · new b / old b   # or its square root, or none
    ```

    As long as all batches had one size it doubles that, to learn t, or halves the largest one.
    Train with `MonitorGradientNoiseScaleOptimizer`, on at least two peers; otherwise nothing
    happens. The time is that of rank 0. Of each interval the second half counts, since `fit` first
    trains on batches of the size before, which it has read ahead.

    Source: Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep
    Learning", OSDI 2021, for the batch size of a fixed number of peers.

    Args:
        max_batch_size: The largest batch of one peer, in samples.
        min_batch_size: The smallest, an integer from 1.
        interval: How often it decides, in steps, an integer from 2.
        scale_learning_rate: "linear" (for SGD), "sqrt" (for Adam and the like) or "none".

    Raises:
        ValueError: If an argument is out of range.

    Example:

    ```python
    policy = kf.policy.GoodputPolicy(1024)
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
                "GoodputPolicy: batch sizes are from 1 up, not from "
                f"{min_batch_size!r} to {max_batch_size!r}"
            )
        if interval < 2:
            raise ValueError(f"GoodputPolicy: interval is 2 steps or more, not {interval!r}")
        self.max_batch_size = max_batch_size
        self.min_batch_size = min_batch_size
        self.interval = interval
        self._first = 0  # batch size
        self._times: dict[int, float] = {}  # of a step, by batch sizes: the newest medians
        self._scales: list[float] = []  # since the last decision, as the next ones
        self._seconds: list[float] = []

    def before_train(self, training: Training) -> None:
        """Forgets an earlier training."""
        self._first = training.batch_size
        self._times.clear()
        self._scales.clear()
        self._seconds.clear()

    def after_step(self, training: Training) -> None:
        """Notes noise scale and time, and acts on them when it is time."""
        self._first = self._first or training.batch_size
        self._seconds.append(training.step_time / training.last_steps)
        if training.noise_scale is not None:
            self._scales.append(training.noise_scale)
        if not self._scales or not training.has_made(self.interval):
            return
        size, scale = training.batch_size, statistics.median(self._scales)
        self._times[size] = statistics.median(self._seconds[len(self._seconds) // 2 :])
        self._scales.clear()
        self._seconds.clear()
        least, most = max(size // 2, self.min_batch_size), min(2 * size, self.max_batch_size)
        if len(self._times) == 1:
            self.change(training, most if most != size else least)
        elif least < most:
            sizes = np.arange(least, most + 1, dtype=np.float64)
            goodputs = self._goodputs(sizes, scale, training.size)
            best = int(np.argmax(goodputs))
            [now] = self._goodputs(np.array([size], np.float64), scale, training.size)
            if goodputs[best] >= _LEAST_GAIN * now:
                self.change(training, least + best)

    def _goodputs(self, sizes: Numbers, scale: float, peers: int) -> Numbers:
        """What a second is worth with batches of these sizes, in samples of the first size."""
        slope, start = np.polyfit([*self._times], [*self._times.values()], 1)
        if slope < 0 or start < 0:  # of noise: no part of a step takes less than no time
            mean = statistics.mean(self._times.values())
            whole = statistics.mean(self._times)
            slope, start = (0.0, mean) if slope < 0 else (mean / whole, 0.0)
        samples = peers * sizes
        worth = 1.0 if np.isinf(scale) else (scale + peers * self._first) / (scale + samples)
        return samples / (start + slope * sizes) * worth
