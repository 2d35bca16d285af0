"""Learning rates that follow the gain of the peers' batches."""

from __future__ import annotations

import math
from collections.abc import Callable

from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.training import Training


class AdaScalePolicy(BasePolicy):
    """Multiplies the learning rate by what the batches of all peers are worth (AdaScale SGD).

    A step of n peers is worth between one and n steps of a single peer. It is one where all samples
    want the same, and n where they only differ by noise. The gradient noise scale tells how much:

    ```
    after each step, with n peers of batch size b, and the noise scale s:
        r ← (s/b + 1) / (s/(n·b) + 1)        # the gain, from 1 to n
        progress ← progress + r              # in steps of a single peer
        learning rate ← rate(progress)·r
    ```

    So the rate, its schedule and the number of steps are those of a single peer with a batch of b.
    They need no tuning for another number of peers. A single peer keeps its rate.

    Train with `MonitorGradientNoiseScaleOptimizer` around SGD, plain or with momentum. Its noise
    scale is smoothed: a larger `alpha` there makes rates steadier. Before the first measurement the
    gain is 1. Rank 0's progress counts. It begins at 0 in each `fit`, also in one that continues
    from a backup.

    Source: Johnson et al., "AdaScale SGD: A User-Friendly Algorithm for Distributed Training", ICML
    2020, whose variances are expressed by the noise scale.

    Args:
        rate: The learning rate of a single peer: a number from 0, or a function of the progress,
            such as a schedule of Keras.
        steps: The progress at which the training ends, a number above 0; None: `fit` ends it.

    Attributes:
        gain: That of the last step, a number from 1 to the number of peers.
        progress: The sum of the gains, in steps of a single peer.

    Raises:
        ValueError: If a number is out of range.

    Example:

    ```python
    policy = kf.policy.AdaScalePolicy(0.1, steps=10_000)
    model.fit(dataset, epochs=100, callbacks=[kf.callbacks.PolicyCallback([policy])])
    ```
    """

    def __init__(
        self, rate: float | Callable[[float], float], *, steps: float | None = None
    ) -> None:
        if not callable(rate) and not 0 <= rate < math.inf:
            raise ValueError(f"AdaScalePolicy: a rate is finite and not negative, not {rate!r}")
        if steps is not None and not steps > 0:
            raise ValueError(f"AdaScalePolicy: steps is a number above 0, not {steps!r}")
        self.rate = rate
        self.steps = steps
        self.gain = 1.0
        self.progress = 0.0

    def before_train(self, training: Training) -> None:
        """Begins with the rate of a single peer."""
        self.gain, self.progress = 1.0, 0.0
        training.set_learning_rate(self._rate())

    def after_step(self, training: Training) -> None:
        """Learns what the step was worth, and sets the rate of the next one."""
        scale = training.noise_scale
        if scale is not None:
            self.gain = gain_of(scale, training.batch_size, training.size)
        self.progress += self.gain * training.last_steps
        training.set_learning_rate(self._rate() * self.gain)
        if self.steps is not None and self.progress >= self.steps:
            training.stop()

    def _rate(self) -> float:
        return float(self.rate(self.progress)) if callable(self.rate) else self.rate


def gain_of(noise_scale: float, batch_size: int, size: int) -> float:
    """How many steps of a single peer a step of all peers is worth.

    Args:
        noise_scale: In samples, from 0; it may be infinite.
        batch_size: Of a peer.
        size: The number of peers.
    """
    if math.isinf(noise_scale):
        return float(size)
    return (noise_scale / batch_size + 1) / (noise_scale / (size * batch_size) + 1)
