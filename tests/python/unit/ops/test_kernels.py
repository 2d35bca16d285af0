"""The op library in a process of one: what is registered, and how."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

from kungfu_tf import ops
from kungfu_tf.native import libraries

# These wait for nobody.
LOCAL = {
    "KungfuAgreedSize",
    "KungfuCalcStats",
    "KungfuClusterSize",
    "KungfuDropBegun",
    "KungfuForget",
    "KungfuPeerInfo",
    "KungfuPost",
    "KungfuPrefetch",
    "KungfuRank",
    "KungfuSave",
    "KungfuTrafficRates",
}
OPS = [
    "KungfuAgreedSize",
    "KungfuAllGather",
    "KungfuAllReduce",
    "KungfuAllToAll",
    "KungfuBarrier",
    "KungfuBeginGroupAllReduce",
    "KungfuBeginGroupNeighborAllReduce",
    "KungfuBroadcast",
    "KungfuCalcStats",
    "KungfuClusterSize",
    "KungfuCollect",
    "KungfuConsensus",
    "KungfuDropBegun",
    "KungfuEndGroupAllReduce",
    "KungfuForget",
    "KungfuGather",
    "KungfuGet",
    "KungfuGroupAllReduce",
    "KungfuGroupAllReduceNorms",
    "KungfuGroupBroadcast",
    "KungfuGroupNeighborAllReduce",
    "KungfuNeighborAllGather",
    "KungfuNumberedAllReduce",
    "KungfuPeerInfo",
    "KungfuPeerLatencies",
    "KungfuPost",
    "KungfuPrefetch",
    "KungfuPrefetched",
    "KungfuPut",
    "KungfuRank",
    "KungfuReduce",
    "KungfuReduceScatter",
    "KungfuRequest",
    "KungfuResize",
    "KungfuSave",
    "KungfuSetStrategy",
    "KungfuSetTree",
    "KungfuSubsetAllReduce",
    "KungfuTrafficRates",
]
# Functions of their inputs, computed where these are: on the CPU.
PURE = {"KungfuDequantize", "KungfuQuantize", "KungfuSquaredNorm"}


@pytest.fixture(autouse=True)
def loaded() -> None:
    libraries.load_ops()


@pytest.mark.parametrize("op", OPS)
def test_registered_for_cpu_and_gpu_with_host_memory(op: str) -> None:
    registered = {
        kernel.device_type: kernel for kernel in kernels.get_registered_kernels_for_op(op).kernel
    }
    assert set(registered) == {"CPU", "GPU"}
    definition = op_def_registry.get(op)
    arguments = {arg.name for arg in [*definition.input_arg, *definition.output_arg]}
    assert set(registered["GPU"].host_memory_arg) == arguments


@pytest.mark.parametrize("op", OPS)
def test_stateful(op: str) -> None:
    assert op_def_registry.get(op).is_stateful


@pytest.mark.parametrize("op", OPS)
def test_communication(op: str) -> None:
    """The errors of what waits for peers: of others, graphs make InternalError of 'unavailable'."""
    assert op_def_registry.get(op).is_distributed_communication == (op not in LOCAL)


def test_no_op_is_forgotten_here() -> None:
    names = [name for name in dir(libraries.load_ops()) if name.startswith("kungfu_")]
    camel = {"".join(word.title() for word in name.split("_")) for name in names}
    assert {name for name in camel if op_def_registry.get(name)} == {*OPS, *PURE}


@pytest.mark.parametrize("dtype", [tf.string, tf.qint8])
def test_other_types_are_not_registered(dtype: tf.DType) -> None:
    allowed = op_def_registry.get("KungfuAllReduce").attr[0].allowed_values.list.type
    assert dtype.as_datatype_enum not in allowed


def test_loading_again_is_the_same() -> None:
    assert libraries.load_ops() is libraries.load_ops()


def test_one_process_stays_in_the_thread_that_it_is_in() -> None:
    """Where peers may be awaited TensorFlow goes on in another thread behind each operation."""
    threads = []

    def noted(x: np.ndarray) -> np.ndarray:
        threads.append(threading.get_ident())
        return x

    @tf.function
    def chain(x: tf.Tensor) -> tf.Tensor:
        for _ in range(50):
            x = tf.ensure_shape(tf.numpy_function(noted, [ops.all_reduce(x)], tf.float32), [2])
        return x

    assert chain(tf.constant([1.0, 2.0])).numpy().tolist() == [1.0, 2.0]
    assert len(threads) == 50
    assert len(set(threads)) == 1


def test_a_call_of_a_function_is_over_when_its_operations_are() -> None:
    """The call of its gradient, too: of two calls the second then never comes first."""

    @tf.function
    def inner(x: tf.Tensor) -> tf.Tensor:
        return ops.all_reduce(tf.cond(x[0] > 0, lambda: ops.all_reduce(2 * x), lambda: x))

    @tf.function
    def gradients(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            values = inner(x), inner(3 * x)
        return [tape.gradient(value, x) for value in values]

    outer = gradients.get_concrete_function(tf.TensorSpec([3], tf.float32))
    held = 0
    for function in outer.graph.as_graph_def().library.function:
        collectives = {node.name for node in function.node_def if node.op.startswith("Kungfu")}
        assert collectives <= set(function.control_ret.values())
        held += len(collectives)
    assert held >= 4  # two, and their gradients
