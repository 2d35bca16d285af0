"""How many peers a result of all peers is multiplied by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops, peer


def number_of_peers(results: Sequence[Any], *, name: str | None) -> Any:
    """How many peers there are when an exchange has these results: an int32, the same on all.

    `ops.cluster_size` may read another number on each peer while one is lost. So where that is
    survived, the peers count themselves: that number, too, is of those that are left. Elsewhere no
    message is sent.

    Args:
        results: Those of the exchange, tensors.
        name: That of the operation; None: by its place in the program.
    """
    if not peer.survives():
        return ops.cluster_size()
    with tf.control_dependencies(results):
        return ops.all_reduce(tf.constant(1), op="sum", name=name)
