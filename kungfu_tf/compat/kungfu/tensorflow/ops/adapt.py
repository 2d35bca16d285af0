"""Operations by which a program adapts its training while it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from kungfu.python._taking_in import change_over
from kungfu.tensorflow.ops.monitor import calc_stats
from kungfu.tensorflow.ops.state import counted
from kungfu.tensorflow.ops.topology import set_tree

from kungfu_tf import config, ops
from kungfu_tf.ops.resize import resize_from_config_server
from kungfu_tf.ops.strategy import after_what_is_pending

__all__ = ["calc_stats", "resize", "resize_cluster_from_url", "set_tree", "step_based_schedule"]


def resize(n: Any) -> Any:
    """Goes over to the newest list of peers: see `kungfu.python.resize`.

    Args:
        n: How many peers there should be, a scalar.

    Returns:
        Whether the list of peers has changed. `kungfu.python.detached` says whether this peer has
        left it.
    """

    def change(wanted: Any) -> Any:
        return np.bool_(change_over(int(wanted))[0])

    if tf.executing_eagerly():
        return tf.constant(change(n))
    with after_what_is_pending("resize"):
        changed = tf.numpy_function(change, [n], tf.bool)
        changed.set_shape([])
        return changed


def resize_cluster_from_url() -> tuple[Any, Any]:
    """The same, with as many peers as the config server says.

    A job without a config server goes over to what `propose_new_size` has asked for.

    Returns:
        Whether the list of peers has changed, and whether this peer has left it.
    """
    return resize_from_config_server() if config.HAS_CONFIG_SERVER.get() else ops.resize(0)


def step_based_schedule(config: str, step: Any = None) -> Any:
    """The size that a schedule says.

    Args:
        config: "4:100,8:200": 4 peers for 100 steps, then 8 for 200, and from then on.
        step: Which one it is; by default it is counted how often this runs.
    """
    return ops.step_based_schedule(config, counted(0, 1, config) if step is None else step)
