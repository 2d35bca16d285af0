"""A training that only says what it sees."""

from __future__ import annotations

from typing import Any

import kungfu_tf as kf
from kungfu_tf.policy.policies import Policies


class Told(kf.policy.Training):
    """A training that is what it is told to be."""

    def __init__(
        self, batch_size: int = 8, noise_scale: float | None = None, *, peers: int = 1
    ) -> None:
        super().__init__()
        self._peers = peers
        self._batch_size, self._rate, self.noise = batch_size, 1.0, noise_scale
        self.has_ended = False

    @property
    def size(self) -> int:
        return self._peers

    @property
    def batch_size(self) -> int:
        return self._batch_size

    @property
    def learning_rate(self) -> float:
        return self._rate

    def measured(self) -> dict[str, Any]:
        return {} if self.noise is None else {"noise_scale": self.noise}

    def change_batch_size(self, size: int) -> None:
        self._batch_size = size

    def change_learning_rate(self, rate: float) -> None:
        self._rate = rate

    def end(self) -> None:
        self.has_ended = True

    def go(self, policies: Policies) -> None:
        """One step."""
        self.step += 1
        policies.call("after_step", self)
        policies.agree(self)
