"""Operations by which a program changes the number of peers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import ops
from kungfu_tf.ops.resize import resize_from_config_server

__all__ = ["resize_cluster", "resize_cluster_from_url", "step_based_schedule"]


def resize_cluster(n: Any) -> tuple[Any, Any]:
    """Goes over to the newest list of peers: see `kungfu.python.resize`.

    Args:
        n: How many peers there should be.

    Returns:
        Whether the list of peers has changed, and whether this peer has left it.
    """
    return ops.resize(n)


def resize_cluster_from_url() -> tuple[Any, Any]:
    """The same, with as many peers as the config server says."""
    return resize_from_config_server()


def step_based_schedule(config: str, step: Any = None) -> Any:
    """The size that a schedule says.

    Args:
        config: "4:100,8:200": 4 peers for 100 steps, then 8 for 200, and from then on.
        step: Which one it is; by default it is counted how often this runs.
    """
    if step is None:
        # In a graph each call counts separately. In eager code nothing else tells one from another.
        name = f"step_based_schedule/{config}" if tf.executing_eagerly() else None
        step = ops.counter(name=name)
    return ops.step_based_schedule(config, step)
