"""Operations between peers, for eager code, `tf.function` and TF1 graphs."""

from __future__ import annotations

from kungfu_tf.ops import gradients as _gradients  # noqa: F401  registers them
from kungfu_tf.ops.collective import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
)
from kungfu_tf.ops.fuse import defuse, fuse
from kungfu_tf.ops.group import group_all_reduce, group_broadcast
from kungfu_tf.ops.meeting import barrier, consensus
from kungfu_tf.ops.topology import cluster_size, peer_info, rank

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "cluster_size",
    "consensus",
    "defuse",
    "fuse",
    "gather",
    "group_all_reduce",
    "group_broadcast",
    "peer_info",
    "rank",
    "reduce",
    "reduce_scatter",
]
