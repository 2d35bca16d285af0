"""BlueFog's operations of all processes, and what it says of this one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from bluefog.common import topology_util
from bluefog.tensorflow._graphs import machines, processes

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.exchange.number_of_peers import number_of_peers

__all__ = [
    "allgather",
    "allreduce",
    "broadcast",
    "in_neighbor_machine_ranks",
    "in_neighbor_ranks",
    "init",
    "is_homogeneous",
    "is_machine_topo_weighted",
    "is_topo_weighted",
    "load_machine_topology",
    "load_topology",
    "local_rank",
    "local_size",
    "machine_rank",
    "machine_size",
    "mpi_threads_supported",
    "nccl_built",
    "out_neighbor_machine_ranks",
    "out_neighbor_ranks",
    "rank",
    "set_machine_topology",
    "set_topology",
    "shutdown",
    "size",
    "unified_mpi_window_model_supported",
]

_logger = logging.getLogger("bluefog")
_initialized = False
windows: dict[str, Any] = {}  # those that the program has made, by name


def init(topology_fn: Callable[[int], Any] | None = None, is_weighted: bool = False) -> None:
    """Starts the peer, and sets a topology: by default the exponential graph."""
    global _initialized
    kf.init()
    _initialized = True
    set_topology(None if topology_fn is None else topology_fn(size()), is_weighted)


def shutdown() -> None:
    """Ends the peer, which cannot start again."""
    global _initialized
    if _initialized:
        kf.shutdown()
    _initialized = False
    processes.graph = machines.graph = None


def _asked(value: Callable[[], int]) -> int:
    if not _initialized:
        raise ValueError("BlueFog has not been initialized; use bf.init().")
    return value()


def size() -> int:
    """How many processes there are."""
    return _asked(kf.size)


def local_size() -> int:
    """How many processes its host has."""
    return _asked(kf.local_size)


def rank() -> int:
    """This process' number, from 0."""
    return _asked(kf.rank)


def local_rank() -> int:
    """This process' number on its host."""
    return _asked(kf.local_rank)


def machine_size() -> int:
    """How many hosts there are."""
    return _asked(kf.host_count)


def machine_rank() -> int:
    """The number of its host."""
    return _hosts().index(_host_of(rank()))


def is_homogeneous() -> bool:
    """Whether all hosts have as many processes, whose ranks follow each other."""
    each = [_host_of(number) for number in range(size())]
    return each == [host for host in _hosts() for _ in range(local_size())]


def _hosts() -> list[str]:
    """In the order of their first ranks."""
    return list(dict.fromkeys(_host_of(number) for number in range(size())))


def _host_of(number: int) -> str:
    return peer.name_of(number).rpartition(":")[0]


def load_topology() -> Any:
    """The graph of processes, a `networkx.DiGraph`."""
    return processes.graph


def load_machine_topology() -> Any:
    """The graph of hosts, a `networkx.DiGraph`, or None."""
    return machines.graph


def is_topo_weighted() -> bool:
    """Whether the weights of `load_topology` count."""
    return processes.is_weighted


def is_machine_topo_weighted() -> bool:
    """Whether the weights of `load_machine_topology` count."""
    return machines.is_weighted


def set_topology(topology: Any = None, is_weighted: bool = False) -> bool:
    """Sets the graph of processes; by default the exponential one.

    Returns:
        Whether it is set: not while there are windows.

    Raises:
        TypeError: If it is no graph of all processes.
    """
    graph = topology_util.ExponentialGraph(size()) if topology is None else topology
    if windows and not topology_util.IsTopologyEquivalent(graph, processes.graph):
        _logger.error("the topology stays while there are windows: call win_free first")
        return False
    return processes.replace(graph, size(), is_weighted=is_weighted)


def set_machine_topology(topology: Any, is_weighted: bool = False) -> bool:
    """Sets the graph of hosts.

    Raises:
        ValueError: If it is None.
        TypeError: If it is no graph of all hosts.
    """
    if topology is None:
        raise ValueError("Machine topology shall not be None.")
    return machines.replace(topology, machine_size(), is_weighted=is_weighted)


def in_neighbor_ranks() -> list[int]:
    """The ranks that this process takes from."""
    return processes.sources(rank())


def out_neighbor_ranks() -> list[int]:
    """The ranks that take from this process."""
    return processes.targets(rank())


def in_neighbor_machine_ranks() -> list[int]:
    """The hosts that this one takes from."""
    return machines.sources(machine_rank())


def out_neighbor_machine_ranks() -> list[int]:
    """The hosts that take from this one."""
    return machines.targets(machine_rank())


def allreduce(tensor: Any, average: bool = True, name: str | None = None, device: str = "") -> Any:
    """The mean of a tensor over all processes, or the sum.

    Raises:
        ValueError: If it is sparse.
    """
    del device
    if isinstance(tensor, tf.IndexedSlices):
        raise ValueError("Do not support Sparse or Indexed Slices Tensor yet.")
    total = kf.ops.all_reduce(tensor, name=name)
    if not average:
        return total
    peers = number_of_peers([total], name=name and f"{name}/peers")
    return total / tf.cast(peers, total.dtype)


def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> Any:
    """The tensor of one process."""
    return kf.ops.broadcast(tensor, root=root_rank, name=name)


def allgather(tensor: Any, name: str | None = None) -> Any:
    """The rows of all processes, whose number may differ."""
    return kf.ops.all_gather(tensor, concat=True, name=name)


def mpi_threads_supported() -> bool:
    """There is no MPI."""
    return False


def unified_mpi_window_model_supported() -> bool:
    """There is no MPI."""
    return False


def nccl_built() -> bool:
    """Data of GPUs travel through the host's memory."""
    return False
