"""The throughput of the peers' exchanges, and whether it has fallen.

It is measured for each strategy, in `kungfu_tf.ops.monitored_all_reduce` and in optimizers with
`monitor=True`.
"""

from __future__ import annotations

import logging

import numpy as np

from kungfu_tf import peer
from kungfu_tf.monitor import measurements

__all__ = ["calc_stats", "check_interference", "log_stats", "print_strategy_stats"]

_log = logging.getLogger(__name__)


def calc_stats() -> float:
    """Returns the throughput of the strategy in use since the last call.

    Returns:
        Bytes per second: the bytes of this peer in monitored operations, divided by the time in
        which there were any. Without such operations it is the last known throughput, or 0.

    Example:

    ```python
    print(f"{kf.calc_stats() / 1e6:.0f} MB/s")
    ```
    """
    return measurements.end_window()


def log_stats() -> None:
    """Logs what `print_strategy_stats` prints, with Python's `logging` at level INFO."""
    for line in _lines():
        _log.info("%s", line)


def print_strategy_stats() -> None:
    """Prints a line for each strategy: what it has moved, and rates if `calc_stats` was called."""
    for line in _lines():
        print(line, flush=True)


def check_interference(*, threshold: float = 0.8) -> bool:
    """Returns whether most peers find that the strategy in use has become slower.

    A peer finds so if its last `calc_stats` returned less than `threshold` times the best result
    with these peers. All peers must call it, and get the same answer.

    Args:
        threshold: Between 0 and 1.

    Returns:
        Whether more than half of the peers find so.

    Raises:
        ValueError: If `threshold` is not between 0 and 1.
        tf.errors.OpError: As any collective.

    Example:

    ```python
    kf.calc_stats()
    if kf.check_interference():
        print("something else uses this network")
    ```
    """
    if not 0 < threshold < 1:
        raise ValueError(f"check_interference: threshold is between 0 and 1, not {threshold}")
    from tensorflow.python.eager import context

    from kungfu_tf import ops

    own = measurements.throughputs().get(measurements.strategy())
    vote = own is not None and own.newest < threshold * own.best
    with context.eager_mode():  # also within a session's hook
        sums = ops.all_reduce(np.array([vote, 1], np.int32), name="check_interference")
        votes, peers = np.asarray(sums).tolist()
    return bool(2 * votes > peers)


def _lines() -> list[str]:
    strategies = measurements.throughputs()
    return [
        f"rank {peer.rank()}: strategy {name}: {one.bytes / 1e6:.1f} MB in {one.seconds:.3f} s"
        + _windows(one)
        for name, one in strategies.items()
    ] or [f"rank {peer.rank()}: nothing has been monitored yet"]


def _windows(one: measurements.Throughput) -> str:
    if not one.best:
        return ""  # `calc_stats` has not ended any
    return f", newest {one.newest / 1e6:.1f} MB/s, best {one.best / 1e6:.1f} MB/s"
