"""Methods in which each peer applies its own gradients, and the peers meet in what they update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.replicas import sample_weights


class OwnGradients(Algorithm):
    """g ← g: of this peer's batch. The peers meet in every step, whoever has run out of samples."""

    applies_own_gradients = True

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns this peer's own; zeros if it has run out of samples and others have not."""
        del variables, step
        return sample_weights.of_samples(gradients)
