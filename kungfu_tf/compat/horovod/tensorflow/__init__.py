"""Horovod's functions for TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from horovod.common.process_sets import within_its_set
from horovod.common.util import gpu_available, split_list
from horovod.tensorflow import _exchange, elastic
from horovod.tensorflow._adasum import with_adasum
from horovod.tensorflow._optimizer import wrapped
from horovod.tensorflow._tape import Tape
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.functions import (
    allgather_object,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from horovod.tensorflow.mpi_ops import (
    Adasum,
    Average,
    Max,
    Min,
    ProcessSet,
    Product,
    Sum,
    add_process_set,
    allgather,
    alltoall,
    broadcast,
    broadcast_,
    ccl_built,
    check_num_rank_power_of_2,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    global_process_set,
    gloo_built,
    gloo_enabled,
    grouped_allgather,
    handle_average_backwards_compatibility,
    init,
    is_homogeneous,
    is_initialized,
    join,
    local_rank,
    local_rank_op,
    local_size,
    local_size_op,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    process_set_included_op,
    rank,
    rank_op,
    reduced,
    reduced_group,
    reduced_rows,
    remove_process_set,
    rocm_built,
    scattered,
    shutdown,
    size,
    size_op,
    start_timeline,
    stop_timeline,
)
from horovod.tensorflow.sync_batch_norm import SyncBatchNormalization
from horovod.tensorflow.util import _executing_eagerly

import kungfu_tf as kf

__all__ = [
    "Adasum",
    "Average",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "Max",
    "Min",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNormalization",
    "_executing_eagerly",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "ccl_built",
    "check_num_rank_power_of_2",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "gpu_available",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "handle_average_backwards_compatibility",
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
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "split_list",
    "start_timeline",
    "stop_timeline",
]


@within_its_set
def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: Any = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """The reduction of a tensor, or of sparse rows, over all processes; by default the mean."""
    del device_dense, device_sparse, ignore_name_scope, process_set
    op = handle_average_backwards_compatibility(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        return reduced_rows(tensor, op, scales=prescale_factor != 1 or postscale_factor != 1)
    small, ctx = compression.compress(tf.convert_to_tensor(tensor))
    result = reduced(small, op, prescale=prescale_factor, postscale=postscale_factor, name=name)
    return compression.decompress(result, ctx)


@within_its_set
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> Sequence[Any]:
    """`allreduce` of many tensors, of which the dense ones travel together."""
    del device_dense, device_sparse, ignore_name_scope, process_set
    op = handle_average_backwards_compatibility(op, average)
    scales = prescale_factor != 1 or postscale_factor != 1
    results: dict[int, Any] = {}
    dense = {}
    for i, tensor in enumerate(tensors):
        if isinstance(tensor, tf.IndexedSlices):
            results[i] = reduced_rows(tensor, op, scales=scales)
        else:
            dense[i] = compression.compress(tf.convert_to_tensor(tensor))
    reductions = reduced_group(
        [small for small, _ in dense.values()],
        op,
        prescale=prescale_factor,
        postscale=postscale_factor,
        name=name,
    )
    for (i, (_, ctx)), result in zip(dense.items(), reductions, strict=True):
        results[i] = compression.decompress(result, ctx)
    return [results[i] for i in range(len(tensors))]


@within_its_set
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: Any = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """This process' rows of the reduction of a tensor; by default of the mean."""
    del device_dense, ignore_name_scope, process_set
    small, ctx = compression.compress(tf.convert_to_tensor(tensor))
    mine = scattered(small, op, prescale=prescale_factor, postscale=postscale_factor, name=name)
    return compression.decompress(mine, ctx)


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = Average,
    process_set: Any = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Sequence[Any]:
    """`reducescatter` of each of many tensors."""
    return [
        reducescatter(
            tensor,
            device_dense,
            compression,
            op,
            process_set=process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
        for tensor in tensors
    ]


def broadcast_global_variables(root_rank: int) -> Any:
    """The operation that gives all processes the global variables of one of them.

    Raises:
        RuntimeError: In eager code.
    """
    if _executing_eagerly():
        raise RuntimeError(
            "broadcast_global_variables is for graphs: in eager code call "
            "hvd.broadcast_variables(variables, root_rank=0)"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(kf.initializer.BroadcastGlobalVariablesHook):
    """Starts all processes from the variables of one of them.

    Args:
        root_rank: The rank whose variables they are.
        device: Has no effect.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        del device
        super().__init__(root=root_rank)


def DistributedOptimizer(  # noqa: N802 (Horovod's)
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Lets an optimizer of Keras or `tf.compat.v1.train` use the gradients of all processes."""
    del name, use_locking, device_dense, device_sparse
    wanted = _exchange.options(
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
    )
    return with_adasum(optimizer, wanted) if op == Adasum else wrapped(optimizer, wanted)


def DistributedGradientTape(  # noqa: N802 (Horovod's)
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
) -> Tape:
    """A tape whose gradients are those of all processes."""
    del device_dense, device_sparse
    wanted = _exchange.options(
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    return Tape(gradtape, wanted)


def PartialDistributedGradientTape(  # noqa: N802 (Horovod's)
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Tape:
    """A tape that leaves the gradients of some layers to each process.

    Raises:
        ValueError: If they are not layers.
    """
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for variable in _exchange.weights_of(local_layers):
        tape.register_local_source(variable)
    return tape
