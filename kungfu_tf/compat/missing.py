"""The names of KungFu, Horovod and BlueFog that `kungfu_tf.compat` lacks, and why."""

from __future__ import annotations

import difflib
import sys

_NCCL = "kungfu_tf does not use NCCL: gradients of GPUs travel through the host's memory"
_OWN = "it is no part of KungFu's interface, but of how KungFu is made"
_MADE = "it is of how KungFu is made; the functions of kungfu.tensorflow.optimizers make optimizers"

_MADE_OF_HOROVOD = "it is no part of Horovod's interface, but of how Horovod is made"

_NOT_BLOCKING = (
    "in a tf.function operations run at the same time: call it without _nonblocking there. "
    "kf.ops.begin_group_neighbor_all_reduce outlives a step"
)
_HANDLES = "nothing returns a handle: in a tf.function operations run at the same time"
_IN_PLACE = "tensors of TensorFlow cannot change: call it without the underscore"
_OF_TORCH = "it takes a model of PyTorch; kf.optimizers has such methods for TensorFlow"
_MADE_OF_BLUEFOG = "it is no part of BlueFog's interface, but of how BlueFog is made"
_BACKGROUND = "there is no thread in the background to pause"

WHY = {
    "bluefog.tensorflow.DistributedAdaptThenCombineOptimizer": _OF_TORCH,
    "bluefog.tensorflow.DistributedAdaptWithCombineOptimizer": _OF_TORCH,
    "bluefog.tensorflow.DistributedGradientAllreduceOptimizer": _OF_TORCH,
    "bluefog.tensorflow.DistributedHierarchicalNeighborAllreduceOptimizer": _OF_TORCH,
    "bluefog.tensorflow.DistributedNeighborAllreduceOptimizer": _OF_TORCH,
    "bluefog.tensorflow.DistributedWinPutOptimizer": _OF_TORCH,
    "bluefog.tensorflow.allgather_nonblocking": _NOT_BLOCKING,
    "bluefog.tensorflow.allreduce_": _IN_PLACE,
    "bluefog.tensorflow.allreduce_nonblocking": _NOT_BLOCKING,
    "bluefog.tensorflow.broadcast_": _IN_PLACE,
    "bluefog.tensorflow.broadcast_nonblocking": _NOT_BLOCKING,
    "bluefog.tensorflow.check_extension": _MADE_OF_BLUEFOG,
    "bluefog.tensorflow.hierarchical_neighbor_allreduce_nonblocking": _NOT_BLOCKING,
    "bluefog.tensorflow.mpi_ops.MPI_LIB": _MADE_OF_BLUEFOG,
    "bluefog.tensorflow.neighbor_allgather_nonblocking": _NOT_BLOCKING,
    "bluefog.tensorflow.neighbor_allreduce_nonblocking": _NOT_BLOCKING,
    "bluefog.tensorflow.poll": _HANDLES,
    "bluefog.tensorflow.resume": _BACKGROUND,
    "bluefog.tensorflow.suspend": _BACKGROUND,
    "bluefog.tensorflow.synchronize": _HANDLES,
    "bluefog.tensorflow.timeline_context": "kungfu-run -timeline records operations",
    "bluefog.tensorflow.wait": _HANDLES,
    "bluefog.tensorflow.win_poll": _HANDLES,
    "bluefog.tensorflow.win_wait": _HANDLES,
    "bluefog.torch": "bluefog.tensorflow has its functions, for tensors of TensorFlow",
    "horovod.keras.callbacks.BestModelCheckpoint": "it is for Spark",
    "horovod.mxnet": "it is for MXNet, and kungfu_tf for TensorFlow",
    "horovod.ray": "kungfu_tf.ray.run has another interface",
    "horovod.spark": "kungfu_tf.spark.run has another interface",
    "horovod.tensorflow.LocalGradientAggregationHelper": _MADE_OF_HOROVOD,
    "horovod.tensorflow.check_extension": _MADE_OF_HOROVOD,
    "horovod.tensorflow.data": "the service of tf.data has functions of its own for this",
    "horovod.tensorflow.gradient_aggregation": _MADE_OF_HOROVOD,
    "horovod.tensorflow.gradient_aggregation_eager": _MADE_OF_HOROVOD,
    "horovod.tensorflow.keras.callbacks.BestModelCheckpoint": "it is for Spark",
    "horovod.tensorflow.mpi_ops.MPI_LIB": _MADE_OF_HOROVOD,
    "horovod.tensorflow.refs_to_vars": _MADE_OF_HOROVOD,
    "horovod.tensorflow.vars_to_refs": _MADE_OF_HOROVOD,
    "horovod.torch": "it is for PyTorch, and kungfu_tf for TensorFlow",
    "kungfu.torch": "it is for PyTorch, and kungfu_tf for TensorFlow",
    "kungfu.loader": _OWN,
    "kungfu.ext": _OWN,
    "kungfu.python.init_from_config": "kungfu-run configures the peers, not the program",
    "kungfu.tensorflow.experimental.hook.elastic.ResizeProfiler": _OWN,
    "kungfu.tensorflow.ops._tf_oplib": _OWN,
    "kungfu.tensorflow.ops.queue.Queue": "kungfu.tensorflow.ops.queue.new_queue makes queues",
    "kungfu.tensorflow.ops.scheduled_nccl_all_reduce": _NCCL,
    "kungfu.tensorflow.ops.scheduled_hierarchical_nccl_all_reduce": _NCCL,
    "kungfu.tensorflow.ops.start_nccl_scheduler": _NCCL,
    "kungfu.tensorflow.optimizers.async_sgd.get_random_peer": _OWN,
    "kungfu.tensorflow.optimizers.core": _MADE,
    "kungfu.tensorflow.optimizers.keras": _MADE,
    "kungfu.tensorflow.v1.benchmarks": "benchmarks are not for programs to import",
    "kungfu.tensorflow.v1.helpers.imagenet": (
        "it reads TFRecords of ImageNet: write it with tf.data, and shard it by "
        "kungfu.python.current_rank()"
    ),
}


def why(module: str, name: str) -> str:
    """Says why a module of one of them has no such name."""
    full = f"{module}.{name}" if module else name
    if full in WHY:
        return f"kungfu_tf.compat has no {full}: {WHY[full]}"
    near = difflib.get_close_matches(name, dir(sys.modules.get(module)), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"kungfu_tf.compat knows no {full}{hint}"
