"""The process as a peer. Nothing here imports TensorFlow before it needs it."""

from __future__ import annotations

from kungfu.python._taking_in import change_over, comes_in, propose

import kungfu_tf as kf
from kungfu_tf import (
    calc_stats,
    detached,
    init_progress,
    log_stats,
    print_strategy_stats,
    uid,
)

__all__ = [
    "all_reduce_int_max",
    "calc_stats",
    "change_cluster",
    "check_interference",
    "current_cluster_size",
    "current_local_rank",
    "current_local_size",
    "current_rank",
    "detached",
    "init_progress",
    "log_stats",
    "print_strategy_stats",
    "propose_new_size",
    "resize",
    "run_barrier",
    "show_cuda_version",
    "show_nccl_version",
    "uid",
]


def propose_new_size(new_size: int) -> None:
    """Asks for another number of peers: see `kungfu_tf.propose_new_size`.

    A number that there cannot be is a warning, as of KungFu.
    """
    propose(int(new_size))


@comes_in
def current_rank() -> int:
    """This peer's position among all peers, from 0."""
    return kf.rank()


@comes_in
def current_cluster_size() -> int:
    """The number of peers."""
    return kf.size()


@comes_in
def current_local_rank() -> int:
    """This peer's position among the peers of its host, from 0."""
    return kf.local_rank()


@comes_in
def current_local_size() -> int:
    """The number of peers on this host."""
    return kf.local_size()


@comes_in
def run_barrier() -> None:
    """Returns when all peers have called it."""
    kf.barrier()


@comes_in
def all_reduce_int_max(x: int) -> int:
    """Returns the largest number of all peers."""
    return kf.all_reduce_int_max(x)


def check_interference() -> bool:
    """Tells whether most peers see the strategy in use move less than it could."""
    return kf.check_interference()


def resize(n: int | None = None) -> tuple[bool, bool]:
    """Goes over to the newest list of peers; all peers call it at the same step.

    Args:
        n: How many peers there should be: then the call waits until newcomers have come, for some
            minutes at most. None: a later call takes them in.

    Returns:
        Whether the list of peers has changed, and whether this peer has left it.
    """
    return change_over(n)


def change_cluster(progress: int) -> tuple[bool, bool]:
    """Changes over as `resize()` does, and says how far the training is.

    Args:
        progress: The number that `init_progress` returns to peers that are started anew.

    Returns:
        Whether the list of peers has changed, and whether this peer has left it.
    """
    return change_over(None, progress)


def _get_cuda_index() -> int:
    """Which of the GPUs that this process can see is its own: kungfu-run shows it one."""
    return 0


def show_cuda_version() -> None:
    """Prints that NCCL is not used, as KungFu does without it."""
    print("NCCL is NOT enabled")


def show_nccl_version() -> None:
    """The same."""
    show_cuda_version()
