"""What functions and classes of `kungfu` do in a process without others."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.usefixtures("packages")


def of(module: str) -> Any:
    return importlib.import_module(f"kungfu.{module}")


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
    assert not ops.resize(tf.constant(1, tf.uint32))
    assert [bool(value) for value in ops.resize_cluster_from_url()] == [False, False]
    assert [int(ops.step_based_schedule("4:2,8:1")) for _ in range(4)] == [4, 4, 8, 8]
    assert int(ops.step_based_schedule("4:2,8:1", 1)) == 4


def test_a_number_of_peers_that_cannot_be_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="propose_new_size: .*kungfu-run"):
        of("python").propose_new_size(new_size=np.int32(2))


def test_programs_of_graphs() -> None:
    ops = of("tensorflow.ops")
    with tf.Graph().as_default():
        assert not of("python").check_interference()
        sizes = [ops.step_based_schedule("4:2,8:1") for _ in range(2)]
        counts = [ops.counter(), ops.counter(1), ops.counter(3, 2, True)]
        x = tf.compat.v1.placeholder(tf.float32, [])
        averages = [ops.exponential_moving_average(x, alpha) for alpha in (0.9, 0.5)]
        assert tf.compat.v1.global_variables() == []
        for _ in range(2):  # nothing initialises them, and each session begins anew
            with tf.compat.v1.Session() as session:
                assert [session.run(sizes) for _ in range(3)] == [[4, 4], [4, 4], [8, 8]]
                assert [session.run(counts) for _ in range(3)] == [[0, 1, 3], [1, 2, 5], [2, 3, 7]]
                found = [session.run(averages, {x: given}) for given in (2, 3, 4)]
                np.testing.assert_allclose(found, [[2, 2], [2.1, 2.5], [2.29, 3.25]], rtol=1e-6)


def test_a_moving_average_of_a_variable_that_is_a_reference() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.get_variable("x", initializer=1.0, use_resource=False)
        average, more = of("tensorflow.ops").exponential_moving_average(x), x.assign_add(1)
        session.run(x.initializer)
        found = [session.run(average) for _ in range(3) if session.run(more)]
    np.testing.assert_allclose(found, [2, 2.1, 2.29], rtol=1e-6)


def test_moving_averages_begin_with_the_first_value() -> None:
    average = of("tensorflow.ops").exponential_moving_average
    found = [float(average(tf.constant(x), 0.75)) for x in (2.0, 4.0)]
    assert found == [2.0, 2.5]
    ema = of("utils").EMA(0.5, 2.0)
    assert [ema.update(x) for x in (4.0, 100.0, 0.0)] == [4.0, 6.0, 4.5]
    ema.reset()
    assert ema.get() is None


def test_state_that_is_shared() -> None:
    kf, variables = of("tensorflow"), of("tensorflow.variables")
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        assert kf.get_batch_size() is None
        size = kf.get_or_create_batch_size(32)
        other = variables.create_global_variable("names/other", [2], tf.float32)
        third = kf.get_or_create_global_variable("third", [], tf.int32, graph, 10)
        assert kf.get_or_create_global_variable("third", [], tf.int32) is third
        assert (size.dtype, other.shape, third.shape) == (tf.int32, [2], [])
        set_size, set_other = map(kf.create_setter, (size, other))
        assign_third, given = kf.create_assign_op_for(third)
        with pytest.raises(ValueError, match="already"):
            variables.create_global_variable("third", [], tf.int32)
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run([size, third]) == [32, 10]
        set_size(session, 64)
        set_other(session, [2.5, 3])
        session.run(assign_third, {given: 11})
        assert kf.eval_batch_size(session) == 64
        assert variables.eval_global_variable("names/other", session).tolist() == [2.5, 3]
        assert variables.eval_global_variable("third", sess=session, graph=graph) == 11
        with pytest.raises(RuntimeError, match="no global variable 'fourth'"):
            variables.eval_global_variable("fourth", session)
        assert variables.get_global_variable("third", tf.Graph()) is None


def test_progress_ends_with_its_maximum() -> None:
    elastic_state = of("python.elastic_state")
    state = elastic_state.ElasticState(3)
    synced = []
    while not state.stopped():
        with elastic_state.ElasticContext(state) as should_sync:
            synced.append(should_sync)
    assert synced == [True, False, False]
    assert (state.progress, state._progress, state.stop_reason()) == (3, 3, "finished")


def test_progress_may_be_one_in_samples() -> None:
    elastic_state = of("python.elastic_state")
    state = elastic_state.ElasticState(64, full_reload=True)
    with elastic_state.ElasticContext(state, delta_progress=32):
        pass
    assert (state.progress, state.stopped()) == (32, False)
    state.end(32)
    assert state.stop_reason() == "finished"


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
    np.savez(tmp_path / "all.npz", a=written, b=written[0])
    with tarfile.open(idx.npz2idxtar(str(tmp_path / "all.npz"))) as tar:
        assert tar.name == str(tmp_path / "all.idx.tar")
        np.testing.assert_array_equal(idx.read_idx_from(tar.extractfile("a")), written)
        np.testing.assert_array_equal(idx.read_idx_from(tar.extractfile("b")), written[0])


def test_data_sets(tmp_path: Path) -> None:
    idx, mnist, cifar = (of(f"tensorflow.v1.helpers.{name}") for name in ("idx", "mnist", "cifar"))
    for part in ("train", "t10k"):
        images = np.full((5, 28, 28), 255, np.uint8)
        idx.write_idx_file(f"{tmp_path}/{part}-images-idx3-ubyte", images)
        idx.write_idx_file(f"{tmp_path}/{part}-labels-idx1-ubyte", np.arange(5, dtype=np.uint8))
    read = mnist.load_datasets(str(tmp_path), True, True, True)
    assert read.train.images.shape == (5, 32, 32, 1)
    assert (read.test.images.max(), read.test.labels[3].argmax()) == (1.0, 3)
    rows = np.zeros([4, 2 + 3 * 32 * 32], np.uint8)
    rows[:, 1] = range(4)  # the fine label
    rows[:, 2:1026] = 255  # red comes first
    for name in ("train.bin", "test.bin"):
        rows.tofile(tmp_path / name)
    test = cifar.Cifar100Loader(str(tmp_path)).load_datasets().test
    assert test.labels.tolist() == [0, 1, 2, 3]
    assert test.images[3, 31, 31].tolist() == [255, 0, 0]
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    content = {b"data": rows[:, 2:], b"labels": [0, 1, 2, 3]}
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        (folder / name).write_bytes(pickle.dumps(content))
    read = cifar.Cifar10Loader(str(tmp_path), normalize=True, one_hot=True).load_datasets()
    assert (read.train.images.shape, read.test.labels.shape) == ((20, 32, 32, 3), (4, 10))
    assert read.train.images[19, 0, 31].tolist() == [1, 0, 0]
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": rows, b"labels": Path()}))
    with pytest.raises(ValueError, match="arrays only, not pathlib"):
        cifar.Cifar10Loader(str(tmp_path)).load_test()


def test_shards_that_change_while_they_are_read() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        adaptor = of("tensorflow.v1.datasets.adaptor").ExampleDatasetAdaptor(2, 2, 1)
        begin, batch = adaptor(tf.data.Dataset.range(24))
        pass_on, change = adaptor.create_update_offset(), adaptor.create_update_topology()
        rewind = adaptor.create_rewind()
        session.run(tf.compat.v1.global_variables_initializer())
        found = []
        for after in (pass_on, change, rewind, None):
            session.run(begin)
            found.append(session.run(batch).tolist())
            if after is not None:
                session.run(after)
    assert found == [[2, 3], [6, 7], [12, 13, 14, 15], [8, 9, 10, 11]]


def test_random_samples() -> None:
    samples, label = of("tensorflow.v1.helpers").random_input([4, 3], 10)
    assert (samples.shape, samples.dtype, label.dtype) == ([4, 3], tf.float32, tf.int32)
    assert 0 <= int(label) < 10


def test_sizes_for_people() -> None:
    utils = of("tensorflow.v1.helpers.utils")
    sizes = [utils.show_size(size) for size in (512, 1536, 3 * utils.Mi, 5 * utils.Gi)]
    assert sizes == ["512", "1.50Ki", "3.00Mi", "5.00Gi"]
    assert utils.show_rate(3 * utils.Ki, 2) == "1.50KiB/s"


def test_events_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    of("_utils")._log_event("BEGIN")
    assert re.fullmatch(r"TS=\d+\.\d+ BEGIN :: .* since proc started\n", capsys.readouterr().out)
    assert of("_utils")._since_job_start() > 0


def test_optimizers_of_keras_have_variables_that_can_be_called() -> None:
    optimizer = of("tensorflow.optimizers").SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.1))
    optimizer.build([tf.Variable([1.0])])
    assert len(optimizer.variables()) == len(optimizer.variables) > 0
    with pytest.warns(UserWarning, match="nccl: kungfu_tf uses none"):
        of("tensorflow.optimizers").SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.1), True)


def test_an_adaptive_optimizer_counts_by_itself() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.get_variable("x", initializer=1.0)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.25)
        optimizer = of("tensorflow.optimizers").AdaptiveSGDOptimizer(optimizer, 1)
        train_op = optimizer.minimize(x * x)
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(3):
            session.run(train_op)
        assert session.run(x) == 0.125


def test_what_a_policy_hook_offers_to_policies() -> None:
    policy = of("tensorflow.policy").BasePolicy()
    hook = of("tensorflow.policy").PolicyHook([policy], 100, 2)
    assert hook.policies == [policy]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        hook.begin()
        session.run(tf.compat.v1.global_variables_initializer())
        keys, evaluate = of("tensorflow.variables").GraphKeys, of("tensorflow.variables")
        assert hook.get_batch_size(session) == 0
        assert evaluate.eval_global_variable(keys.TOTAL_SAMPLES, session) == 200
