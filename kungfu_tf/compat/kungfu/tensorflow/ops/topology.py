"""Ranks and sizes, and the way of data between the peers."""

from __future__ import annotations

from typing import Any

from kungfu.python import current_cluster_size, current_rank

from kungfu_tf import ops

__all__ = [
    "cluster_size",
    "current_cluster_size",
    "current_rank",
    "get_neighbour_mask",
    "get_peer_latencies",
    "global_minimum_spanning_tree",
    "peer_info",
    "rank",
    "round_robin",
    "set_tree",
]


def rank() -> Any:
    """This peer's rank."""
    return ops.rank()


def cluster_size() -> Any:
    """The number of peers."""
    return ops.cluster_size()


def peer_info() -> tuple[Any, Any]:
    """Both."""
    return ops.peer_info()


def get_peer_latencies() -> Any:
    """Seconds that each peer takes to answer."""
    return ops.get_peer_latencies()


def global_minimum_spanning_tree(self_weights: Any) -> Any:
    """The edges of the tree of least weight between all peers."""
    return ops.global_minimum_spanning_tree(self_weights)


def get_neighbour_mask(edges: Any) -> Any:
    """Which peers are this one's neighbours in a tree."""
    return ops.get_neighbour_mask(edges)


def round_robin(mask: Any) -> Any:
    """The next index that a mask selects, in turn."""
    return ops.round_robin(mask)


def set_tree(tree: Any) -> Any:
    """Lets all data travel along a tree: the parent of each rank."""
    return ops.set_tree(tree)
