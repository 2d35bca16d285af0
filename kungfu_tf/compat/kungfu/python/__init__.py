"""The process as a peer. Nothing here imports TensorFlow before it needs it."""

from __future__ import annotations

import kungfu_tf as kf
from kungfu_tf import (
    all_reduce_int_max,
    calc_stats,
    detached,
    errors,
    init_progress,
    log_stats,
    print_strategy_stats,
    uid,
)
from kungfu_tf import local_rank as current_local_rank
from kungfu_tf import local_size as current_local_size
from kungfu_tf import rank as current_rank
from kungfu_tf import size as current_cluster_size
from kungfu_tf.upstream import warn

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
    try:
        kf.propose_new_size(int(new_size))
    except errors.FailedPreconditionError as refusal:
        warn.warn(f"propose_new_size: {refusal}")


def run_barrier() -> None:
    """Returns when all peers have called it."""
    kf.barrier()


def check_interference() -> bool:
    """Tells whether most peers see the strategy in use move less than it could."""
    return kf.check_interference()


def resize(n: int | None = None) -> tuple[bool, bool]:
    """Goes over to the newest list of peers; all peers call it at the same step.

    KungFu's waits until newcomers have come; ours does not, and it is a later call that takes them
    in.

    Args:
        n: How many peers there should be.

    Returns:
        Whether the list of peers has changed, and whether this peer has left it.
    """
    changed = kf.resize(n=n)
    return changed, kf.detached()


def change_cluster(progress: int) -> tuple[bool, bool]:
    """Changes over as `resize` does, and says how far the training is.

    Args:
        progress: The number that `init_progress` returns to peers that are started anew.

    Returns:
        Whether the list of peers has changed, and whether this peer has left it.
    """
    changed = kf.resize(progress=progress)
    return changed, kf.detached()


def _get_cuda_index() -> int:
    """Which of the GPUs that this process can see is its own: kungfu-run shows it one."""
    return 0


def show_cuda_version() -> None:
    """Prints that NCCL is not used, as KungFu does without it."""
    print("NCCL is NOT enabled")


def show_nccl_version() -> None:
    """The same."""
    show_cuda_version()
