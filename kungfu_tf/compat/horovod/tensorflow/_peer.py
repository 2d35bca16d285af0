"""This process among all of them."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import tensorflow as tf
from horovod.common._membership import come_in
from horovod.common.process_sets import add_process_sets, included, process_sets_of_ids

import kungfu_tf as kf
from kungfu_tf import errors, ops, peer

__all__ = [
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
]

_initialized = False


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Starts the peer, and gives process sets their numbers. A newcomer waits for the others here.

    Raises:
        UnimplementedError: If it is to be of other processes than all.
        ValueError: If two sets have the same ranks.
    """
    global _initialized
    if comm:
        raise errors.UnimplementedError(
            "hvd.init: comm is missing in kungfu_tf.compat, where a process belongs to all that "
            "kungfu-run has started"
        )
    kf.init()
    come_in()
    if process_sets not in (None, "dynamic"):
        add_process_sets(process_sets)
    _initialized = True


def shutdown() -> None:
    """Ends the peer, which cannot start again."""
    global _initialized
    if _initialized:
        kf.shutdown()
    _initialized = False


def is_initialized() -> bool:
    """Whether the program has called `init`."""
    return _initialized


def _check_initialized() -> None:
    if not _initialized:
        raise ValueError("Horovod has not been initialized; use hvd.init().")


def rank() -> int:
    """This process' number, from 0."""
    _check_initialized()
    return kf.rank()


def size() -> int:
    """How many processes there are."""
    _check_initialized()
    return kf.size()


def local_rank() -> int:
    """This process' number on its host."""
    _check_initialized()
    return kf.local_rank()


def local_size() -> int:
    """How many processes its host has."""
    _check_initialized()
    return kf.local_size()


def cross_rank() -> int:
    """The number of its host."""
    _check_initialized()
    return list(_hosts()).index(_host_of(kf.rank()))


def cross_size() -> int:
    """How many hosts there are."""
    _check_initialized()
    return kf.host_count()


def is_homogeneous() -> bool:
    """Whether all hosts have as many processes."""
    _check_initialized()
    return len(set(_hosts().values())) == 1


def _hosts() -> collections.Counter[str]:
    """How many processes each host has, in the order of their first ranks."""
    return collections.Counter(_host_of(each) for each in range(kf.size()))


def _host_of(each: int) -> str:
    return peer.name_of(each).rpartition(":")[0]


def rank_op(name: str | None = None) -> Any:
    """`rank` as an operation."""
    return ops.rank(name=name)


def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """`size` as an operation."""
    if process_set_id:
        return tf.constant(len(process_sets_of_ids()[process_set_id]), name=name)
    return ops.cluster_size(name=name)


def local_rank_op(name: str | None = None) -> Any:
    """`local_rank` as an operation."""
    return tf.constant(local_rank(), name=name)


def local_size_op(name: str | None = None) -> Any:
    """`local_size` as an operation."""
    return tf.constant(local_size(), name=name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """Whether this process is in the set: 1 or 0."""
    return tf.constant(int(included(process_set_id)), name=name)


def join() -> Any:
    """Waits until all processes have called it, and returns the rank that has done so last.

    Until then this process changes nothing in the others' `allreduce`: it gives zeros to their
    sums and gradients. Their other operations fail, and name it.
    """
    _check_initialized()
    if tf.executing_eagerly():
        return tf.constant(kf.data.join())
    return tf.ensure_shape(tf.numpy_function(lambda: np.int32(kf.data.join()), [], tf.int32), [])


def mpi_threads_supported() -> bool:
    """There is no MPI."""
    return False


def mpi_enabled() -> bool:
    """There is no MPI."""
    return False


def mpi_built() -> bool:
    """There is no MPI."""
    return False


def gloo_enabled() -> bool:
    """Processes train without MPI, which is what programs ask by this."""
    return True


def gloo_built() -> bool:
    """As `gloo_enabled`."""
    return True


def nccl_built() -> int:
    """The version of NCCL, which is not used."""
    return 0


def ddl_built() -> bool:
    """There is no DDL."""
    return False


def ccl_built() -> bool:
    """There is no oneCCL."""
    return False


def cuda_built() -> bool:
    """Gradients of GPUs travel through the host's memory."""
    return False


def rocm_built() -> bool:
    """The same."""
    return False


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Lets rank 0 record its operations, until `stop_timeline`. All processes call it."""
    del mark_cycles  # there are no cycles
    if rank() == 0:
        kf.start_timeline(file_path)


def stop_timeline() -> None:
    """Ends what `start_timeline` began. All processes call it."""
    if rank() == 0:
        kf.stop_timeline()
