"""What `kungfu` has, how it may be called, and what it says of what it has not."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from kungfu_tf import compat
from kungfu_tf.compat import missing

ROOT = Path(__file__).resolve().parents[3]
MODULES = Path(compat.__file__).with_name("kungfu")

# KungFu's, for its users.
PUBLIC = {
    "_utils": {
        "map_maybe": "(f, xs)",
        "measure": "(f)",
        "one_based_range": "(n)",
        "show_duration": "(duration)",
        "show_rate": "(size, duration)",
        "show_size": "(n)",
    },
    "cmd": {"launch_multiprocess": "(f, np)", "run": "()"},
    "python": {
        "all_reduce_int_max": "(x)",
        "calc_stats": "()",
        "change_cluster": "(progress)",
        "check_interference": "()",
        "current_cluster_size": "()",
        "current_local_rank": "()",
        "current_local_size": "()",
        "current_rank": "()",
        "detached": "()",
        "init_progress": "()",
        "log_stats": "()",
        "print_strategy_stats": "()",
        "propose_new_size": "(n)",
        "resize": "(n=None)",
        "run_barrier": "()",
        "uid": "()",
    },
    "python.elastic_state": {
        "ElasticContext": "(elastic_state)",
        "ElasticState": "(max_progress=None, reload=False)",
    },
    "tensorflow.experimental.hook": {
        "ElasticHook": "(schedule, max_step)",
        "KungFuElasticTrainHook": "(schedule, max_step, model_dir=None, save_final=False)",
        "PolicyHook": "(policies, epoch_size, epoch_num, init_batch_size)",
    },
    "tensorflow.hooks": {
        "ElasticHook": "(schedule, max_step)",
        "PolicyHook": "(policies, epoch_size, epoch_num, init_batch_size)",
    },
    "tensorflow.initializer": {
        "BroadcastGlobalVariablesCallback": "()",
        "BroadcastGlobalVariablesHook": "(*, check_every=1000)",
        "BroadcastGlobalVariablesOp": "()",
        "broadcast_variables": "(variables)",
    },
    "tensorflow.ops": {
        "all_gather": "(t)",
        "all_reduce": "(t, op='sum')",
        "barrier": "()",
        "broadcast": "(t)",
        "calc_stats": "()",
        "check_interference": "()",
        "cluster_size": "()",
        "consensus": "(t)",
        "counter": "(init=0, incr=1)",
        "current_cluster_size": "()",
        "current_rank": "()",
        "defuse": "(y, shapes)",
        "egress_rates": "()",
        "exponential_moving_average": "(x, alpha=0.9)",
        "fuse": "(ts)",
        "get_neighbour_mask": "(edges)",
        "get_peer_latencies": "(local_step=None)",
        "global_minimum_spanning_tree": "(self_weights)",
        "global_noise_scale": "(batch_small, batch_big, tensor, avg_tensor, alpha=0.6)",
        "group_all_reduce": "(ts, op='sum')",
        "group_hierarchical_nccl_all_reduce": "(ts)",
        "group_nccl_all_reduce": "(ts)",
        "log_stats": "()",
        "monitored_all_reduce": "(t, tree=None, op='sum')",
        "new_queue": "(src, dst)",
        "peer_info": "()",
        "print_strategy_stats": "()",
        "rank": "()",
        "request_variable": "(target, version=None, name=None, shape=None, dtype=None)",
        "request_variable_with_template": "(target, template, version=None)",
        "resize_cluster": "(n)",
        "resize_cluster_from_url": "()",
        "round_robin": "(mask)",
        "save_variable": "(t, version=None, name=None)",
        "save_variables": "(variables)",
        "set_tree": "(tree)",
        "step_based_schedule": "(config, step=None)",
        "subset_all_reduce": "(t, topology, op='sum')",
    },
    "tensorflow.optimizers": {
        "AdaptiveSGDOptimizer": (
            "(optimizer, change_step, alpha=0.1, name=None, use_locking=False, with_keras=False)"
        ),
        "MonitorGradientNoiseScaleOptimizer": (
            "(optimizer, device_batch_size, monitor_interval=1, name=None, use_locking=False, "
            "with_keras=False)"
        ),
        "MonitorGradientVarianceOptimizer": (
            "(optimizer, monitor_interval=1, name=None, use_locking=False, with_keras=False)"
        ),
        "PairAveragingOptimizer": (
            "(optimizer, fuse_requests=True, fused_model_name=None, name=None, "
            "use_locking=False, with_keras=False)"
        ),
        "SynchronousAveragingOptimizer": (
            "(optimizer, name=None, alpha=0.1, use_locking=False, with_keras=False)"
        ),
        "SynchronousSGDOptimizer": (
            "(optimizer, nccl=False, nccl_fusion=True, hierarchical_nccl=False, name=None, "
            "use_locking=False, with_keras=False)"
        ),
    },
    "tensorflow.policy": {
        "BasePolicy": "()",
        "PolicyHook": "(policies, epoch_size, epoch_num, init_batch_size)",
    },
    "tensorflow.variables": {
        "GraphKeys": "()",
        "create_global_variable": "(name, value=0, dtype=tf.int64)",
        "create_setter": "(variable)",
        "eval_batch_size": "(session=None)",
        "eval_global_variable": "(session, name=None)",
        "eval_gradient_noise_scale": "(session=None)",
        "get_batch_size": "()",
        "get_global_variable": "(key)",
        "get_or_create_batch_size": "(init_batch_size)",
        "get_or_create_global_variable": "(name, value=0, dtype=tf.int64)",
    },
    "tensorflow.v1.helpers.cifar": {
        "Cifar100Loader": "(data_dir, normalize=True, one_hot=True)",
        "Cifar10Loader": "(data_dir, normalize=True, one_hot=True)",
        "CifarDataSet": "(images, labels)",
        "CifarDataSets": "(train, test)",
    },
    "tensorflow.v1.helpers.idx": {
        "read_idx_file": "(filename)",
        "read_idx_tensor": "(f)",
        "write_idx_file": "(filename, a)",
        "write_idx_tensor": "(f, a)",
    },
    "tensorflow.v1.helpers.mnist": {
        "MnistDataSet": "(images, labels)",
        "MnistDataSets": "(train, test)",
        "load_datasets": "(data_dir, normalize=False, one_hot=False, padded=False)",
        "load_mnist_split": "(data_dir, prefix, normalize=False, one_hot=False, padded=False)",
    },
}


@pytest.fixture(scope="module", autouse=True)
def kungfu() -> Iterator[None]:
    """Stands in for it, in this module only."""
    finders = list(sys.meta_path)
    compat.install("kungfu")
    yield
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.split(".")[0] == "kungfu"]:
        del sys.modules[name]


def of(module: str) -> Any:
    return importlib.import_module(f"kungfu.{module}")


def signature_of(value: Any) -> str:
    """Without types."""
    empty = inspect.Parameter.empty
    signature = inspect.signature(value)
    parameters = [p.replace(annotation=empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=empty))


@pytest.mark.parametrize("module", PUBLIC)
def test_signatures(module: str) -> None:
    names = of(module).__all__
    assert {name: signature_of(getattr(of(module), name)) for name in names} == PUBLIC[module]


def test_every_module_can_be_imported_and_has_what_it_says() -> None:
    for file in MODULES.rglob("*.py"):
        path = file.relative_to(MODULES).with_suffix("").parts
        name = ".".join(part for part in path if part != "__init__")
        if name and not name.endswith("__main__"):
            assert all(hasattr(of(name), each) for each in getattr(of(name), "__all__", [])), name


def test_names_of_several_versions_of_tensorflow() -> None:
    compat = of("tensorflow.compat")
    assert sorted(name for name in vars(compat) if name.startswith("_tf_")) == compat.__all__


def test_positional_arguments_reach_what_they_mean(tmp_path: Path) -> None:
    ops = of("tensorflow.ops")
    x = tf.constant([1.0, 2.0])
    for result in (ops.all_reduce(x, "max"), ops.broadcast(x), ops.monitored_all_reduce(x, [0])):
        np.testing.assert_array_equal(result, x)
    assert ops.group_nccl_all_reduce([None]) == [None]
    np.testing.assert_array_equal(ops.defuse(ops.fuse([x, x]), [[2], [2]])[1], x)
    assert ops.all_gather(x).shape == (1, 2)
    assert bool(ops.consensus(x))
    assert [int(ops.counter(5, 2)) for _ in range(2)] == [5, 7]
    assert float(ops.exponential_moving_average(3.0, 0.5)) == 3.0
    assert [int(value) for value in ops.peer_info()] == [0, 1]
    ops.save_variable(x, 7, "names/x")
    np.testing.assert_array_equal(ops.request_variable(0, 7, "names/x", [2], tf.float32), x)
    variable = tf.Variable(x, name="names_y")
    ops.save_variables([variable])
    np.testing.assert_array_equal(ops.request_variable_with_template(0, variable), x)
    with pytest.raises(ValueError, match="name, shape and dtype must be given"):
        ops.request_variable(0, 7, "names/x")
    queue = ops.new_queue(0, 0)
    queue.put(x)
    np.testing.assert_array_equal(queue.get(tf.float32, [2]), x)
    assert of("python").all_reduce_int_max(3) == 3
    assert of("python").resize() == (False, False)
    assert of("python").change_cluster(3) == (False, False)
    assert [bool(value) for value in ops.resize_cluster(1)] == [False, False]
    with pytest.raises(tf.errors.FailedPreconditionError, match="kungfu-run"):
        ops.resize_cluster_from_url()
    assert [int(ops.step_based_schedule("4:2,8:1")) for _ in range(4)] == [4, 4, 8, 8]
    assert int(ops.step_based_schedule("4:2,8:1", 1)) == 4


def test_programs_of_graphs() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        assert not of("python").check_interference()
        sizes = [of("tensorflow.ops").step_based_schedule("4:2,8:1") for _ in range(2)]
        session.run(tf.compat.v1.global_variables_initializer())
        assert [session.run(sizes) for _ in range(3)] == [[4, 4], [4, 4], [8, 8]]


def test_state_that_is_shared() -> None:
    variables = of("tensorflow.variables")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        size = variables.get_or_create_batch_size(32)
        other = variables.create_global_variable("names/other", 1.5, tf.float32)
        set_size, set_other = map(variables.create_setter, (size, other))
        session.run(tf.compat.v1.global_variables_initializer())
        set_size(session, 64)
        set_other(2.5, session)
        assert variables.eval_batch_size(session) == 64
        assert variables.eval_global_variable(session, "names/other") == 2.5
        assert variables.eval_global_variable("names/other", session) == 2.5


def test_progress_ends_with_its_maximum() -> None:
    elastic_state = of("python.elastic_state")
    state = elastic_state.ElasticState(3)
    synced = []
    while not state.stopped():
        with elastic_state.ElasticContext(state) as should_sync:
            synced.append(should_sync)
    assert synced == [True, False, False]
    assert (state.progress, state._progress, state.stop_reason()) == (3, 3, "finished")


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float32, np.float64])
def test_files_of_idx(kind: type, tmp_path: Path) -> None:
    idx = of("tensorflow.v1.helpers.idx")
    written = np.arange(24).reshape(2, 3, 4).astype(kind)
    idx.write_idx_file(f"{tmp_path}/x", written)
    read = idx.read_idx_file(f"{tmp_path}/x")
    assert read.dtype == kind
    np.testing.assert_array_equal(read, written)
    (tmp_path / "short").write_bytes((tmp_path / "x").read_bytes()[:-1])
    with pytest.raises(ValueError, match="short ends before all its elements"):
        idx.read_idx_file(f"{tmp_path}/short")
    (tmp_path / "none").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="none is not in the format IDX"):
        idx.read_idx_file(f"{tmp_path}/none")


def test_data_sets(tmp_path: Path) -> None:
    idx, mnist, cifar = (of(f"tensorflow.v1.helpers.{name}") for name in ("idx", "mnist", "cifar"))
    for part in ("train", "t10k"):
        images = np.full((5, 28, 28), 255, np.uint8)
        idx.write_idx_file(f"{tmp_path}/{part}-images-idx3-ubyte", images)
        idx.write_idx_file(f"{tmp_path}/{part}-labels-idx1-ubyte", np.arange(5, dtype=np.uint8))
    read = mnist.load_datasets(str(tmp_path), True, True, True)
    assert read.train.images.shape == (5, 32, 32)
    assert (read.test.images.max(), read.test.labels[3].argmax()) == (1.0, 3)
    rows = np.zeros([4, 2 + 3 * 32 * 32], np.uint8)
    rows[:, 1] = range(4)  # the fine label
    rows[:, 2:1026] = 255  # red comes first
    for name in ("train.bin", "test.bin"):
        rows.tofile(tmp_path / name)
    test = cifar.Cifar100Loader(str(tmp_path), False, False).load_datasets().test
    assert test.labels.tolist() == [0, 1, 2, 3]
    assert test.images[3, 31, 31].tolist() == [255, 0, 0]


def test_optimizers_of_keras_have_variables_that_can_be_called() -> None:
    optimizer = of("tensorflow.optimizers").SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.1))
    optimizer.build([tf.Variable([1.0])])
    assert len(optimizer.variables()) == len(optimizer.variables) > 0
    with pytest.warns(UserWarning, match="nccl: kungfu_tf uses none"):
        of("tensorflow.optimizers").SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.1), True)


@pytest.mark.parametrize("name", missing.WHY)
def test_what_is_missing_is_named_with_its_reason(name: str) -> None:
    module, _, last = name.rpartition(".")
    with pytest.raises(ImportError) as imported:
        exec(f"from {module} import {last}")
    with pytest.raises(AttributeError) as asked:
        getattr(importlib.import_module(module), last)
    message = f"kungfu_tf.compat has no {name}: {missing.WHY[name]}"
    assert (str(imported.value), str(asked.value)) == (message, message)
    assert f"`{name}`" in (ROOT / "docs" / "migrate" / "kungfu.md").read_text()


def test_a_slip_of_the_pen() -> None:
    with pytest.raises(ImportError, match=r"knows no kungfu.python.run_barier; did you mean run_b"):
        exec("from kungfu.python import run_barier")
    with pytest.raises(ImportError, match=r"knows no kungfu.tensorflow.opts; did you mean ops"):
        exec("import kungfu.tensorflow.opts")
