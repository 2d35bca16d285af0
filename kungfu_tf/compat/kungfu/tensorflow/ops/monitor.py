"""Measurements."""

from __future__ import annotations

from typing import Any

from kungfu.python import check_interference, log_stats, print_strategy_stats

from kungfu_tf import ops

__all__ = [
    "calc_stats",
    "check_interference",
    "egress_rates",
    "global_noise_scale",
    "log_stats",
    "print_strategy_stats",
]


def global_noise_scale(
    batch_small: Any, batch_big: Any, tensor: Any, avg_tensor: Any, alpha: float = 0.6
) -> Any:
    """The gradient noise scale, from a peer's gradient and the mean of all."""
    return ops.global_noise_scale(batch_small, batch_big, tensor, avg_tensor, alpha=alpha)


def egress_rates() -> Any:
    """Bytes per second to each peer."""
    return ops.egress_rates()


def calc_stats() -> Any:
    """The throughput of the strategy in use since the last call."""
    return ops.calc_stats()
