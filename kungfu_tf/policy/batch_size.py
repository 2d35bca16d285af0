"""The common part of policies that change the batch size."""

from __future__ import annotations

from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.training import Training

_EXPONENTS = {"linear": 1.0, "sqrt": 0.5, "none": 0.0}


class BatchSizePolicy(BasePolicy):
    """Changes the batch size, and the learning rate with it.

    Args:
        scale_learning_rate: How the rate follows the batch size: "linear" suits SGD (Goyal et al.,
            2017), "sqrt" suits Adam and similar optimizers; "none" leaves the rate alone.

    Raises:
        ValueError: If `scale_learning_rate` is anything else.
    """

    def __init__(self, *, scale_learning_rate: str) -> None:
        if scale_learning_rate not in _EXPONENTS:
            raise ValueError(
                f"scale_learning_rate is {' or '.join(_EXPONENTS)}, not {scale_learning_rate!r}"
            )
        self.scale_learning_rate = scale_learning_rate

    def change(self, training: Training, size: int) -> None:
        """Changes the batch size to `size`, and the learning rate accordingly."""
        if size == training.batch_size:
            return
        ratio, exponent = size / training.batch_size, _EXPONENTS[self.scale_learning_rate]
        training.set_batch_size(size)
        if exponent:
            training.set_learning_rate(training.learning_rate * ratio**exponent)
