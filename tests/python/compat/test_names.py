"""What `kungfu` and `horovod` have, how they may be called, and what they say of the rest."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import pickle
import re
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from kungfu_tf import compat
from kungfu_tf.compat import missing
from kungfu_tf.launcher.options import command_line, flags, horovodrun
from kungfu_tf.launcher.options.launch_error import LaunchError

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("kungfu", "horovod")
MODULES = [Path(compat.__file__).with_name(package) for package in PACKAGES]


# Facts of KungFu and Horovod: tests/upstream/names.py has made them of their sources.
class _AnyValue:
    def __getattr__(self, name: str) -> _AnyValue:
        return self


ANY_VALUE = _AnyValue()
TABLES = [
    json.loads(Path(__file__).with_name(f"{name}_names.json").read_text()) for name in PACKAGES
]
NAMES = {module: names for table in TABLES for module, names in table["names"].items()}
FLAGS, OF_HOROVODRUN = (table["flags"] for table in TABLES)

# Flags of KungFu's scripts, tests and documentation, as they go together.
TOGETHER = [
    "-q -H 127.0.0.1:4 -np 4",
    "-q -H 127.0.0.1:8 -w -np 1",
    "-q -w -config-server http://127.0.0.1:9100/config -builtin-config-port 9100 -np 1",
    "-q -logdir logs -w -builtin-config-port 9100 -config-server http://127.0.0.1:9100/config",
    "-logdir logs -q -w -elastic-mode reload -builtin-config-port 9100 -config-server "
    "http://127.0.0.1:9100/config -np 1",
    "-q -H 127.0.0.1:8 -np 1 -logdir logs -w -config-server http://127.0.0.1:9100/get",
    "-q -H 127.0.0.1:16 -np 2 -timeout 2m -port-range 20001-20016 -w",
    "-timeout 8s -np 1 -H 127.0.0.1:1",
    "-np=4 -strategy=BINARY_TREE_STAR -H 127.0.0.1:4 -timeout=5s -v=false",
    "-np 4 -auto-recover 10s",
    "-t0 1600000000 -np 2 -H 10.0.0.1:1,10.0.0.2:1 -nic eth0 -allow-nvlink",
]


@pytest.fixture(scope="module", autouse=True)
def packages() -> Iterator[None]:
    """Stands in for them, in this module only."""
    finders = list(sys.meta_path)
    for package in PACKAGES:
        compat.install(package)
    yield
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        del sys.modules[name]


def of(module: str) -> Any:
    return importlib.import_module(f"kungfu.{module}")


def parameters_of(value: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(value).parameters.values())


def parameters_in(signature: str) -> list[inspect.Parameter]:
    """Those of a row of the table. A default that is a name there may be any value here."""
    known = defaultdict(lambda: ANY_VALUE)
    return parameters_of(eval(f"lambda {signature[1:-1]}: None", {}, known))


def accepts(ours: list[inspect.Parameter], theirs: list[inspect.Parameter]) -> bool:
    """Whether every call that fits their parameters fits ours, and means the same.

    A function of theirs that takes anything passes it on: its parameters say nothing.
    """
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    same, further = ours[: len(theirs)], ours[len(theirs) :]
    if tuple(p.kind for p in theirs) == stars:
        same, theirs, further = [], [], ours
    return (
        [(p.name, p.kind) for p in same] == [(p.name, p.kind) for p in theirs]
        and all(b.default in (a.default, ANY_VALUE) for a, b in zip(same, theirs, strict=True))
        and all(p.default is not p.empty or p.kind in stars for p in further)
    )


def is_missing(name: str) -> bool:
    return any(name == why or name.startswith(f"{why}.") for why in missing.WHY)


@pytest.mark.parametrize("module", [name for name in NAMES if not is_missing(name)])
def test_names_and_signatures(module: str) -> None:
    if module.endswith("__main__"):
        assert importlib.util.find_spec(module) is not None
        return
    here = importlib.import_module(module)
    rows = {n: s for n, s in NAMES[module].items() if not is_missing(f"{module}.{n}")}
    assert [name for name in rows if not has(here, name)] == []
    refused = {
        name: (signature, str(inspect.signature(get(here, name))))
        for name, signature in rows.items()
        if signature and not accepts(parameters_here(here, name), parameters_in(signature))
    }
    assert refused == {}


def has(module: Any, name: str) -> bool:
    try:
        get(module, name)
    except AttributeError:
        return False
    return True


def get(module: Any, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), module)


def parameters_here(module: Any, name: str) -> list[inspect.Parameter]:
    """Of a function, of a class' constructor, or of a method without the object itself."""
    found = parameters_of(get(module, name))
    return found[1:] if "." in name else found


@pytest.mark.parametrize("flag", FLAGS)
def test_flags(flag: str) -> None:
    assert f"  -{flag}" in flags.help_text()


@pytest.mark.parametrize("flag", OF_HOROVODRUN)
def test_flags_of_horovodrun(flag: str) -> None:
    name = flag.lstrip("-")
    if name in ("version", "v"):  # kungfu-run's own
        return
    row = horovodrun.ROWS.get(name)
    given = [flag, "1-2"] if row is not None and row.takes_value else [flag]
    is_number = flag in ("-np", "--num-proc", "--min-np", "--min-num-proc")
    given = [flag, "2"] if is_number else given
    given = [flag, "127.0.0.1:2"] if name in ("H", "hosts", "hostfile") else given
    command = ["-compat", "horovod", *given, "python3", "train.py"]
    if row is not None and row.refused:
        with pytest.raises(LaunchError, match=f"-{name} of horovodrun is missing in kungfu-run"):
            command_line.parse(command)
    else:
        assert command_line.parse(command).command == ("python3", "train.py")


def test_flags_of_horovodrun_need_horovod() -> None:
    with pytest.raises(LaunchError, match=r"'--fusion-threshold-mb'.*-compat horovod"):
        command_line.parse(["--fusion-threshold-mb", "32", "python3", "train.py"])


def test_flags_of_horovodrun_that_mean_ours() -> None:
    line = "--num-proc 3 --hosts a:3 --network-interface eth1 --output-filename logs --verbose"
    options = command_line.parse([*line.split(), "-compat", "horovod", "python3", "train.py"])
    assert (options.np, options.hosts, options.nic) == (3, "a:3", "eth1")
    assert (options.logdir, options.verbose) == ("logs", True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--min-np 2", ("survive-all", 2)),
        ("--min-num-proc 2 --max-num-proc 4", ("survive-all", 2)),
        ("--min-np 2 -on-failure survive", ("survive", 2)),
        ("--max-np 4", ("stop", None)),
    ],
)
def test_a_least_number_of_peers_lets_the_others_go_on(
    line: str, expected: tuple[str, int | None]
) -> None:
    command = ["-compat", "horovod", *line.split(), "python3", "train.py"]
    options = command_line.parse(command)
    assert (options.on_failure, options.min_np) == expected


@pytest.mark.parametrize("line", TOGETHER)
def test_flags_that_go_together(line: str) -> None:
    command = [*line.split(), "python3", "train.py"]
    assert command_line.parse(command).command == ("python3", "train.py")


def test_every_module_can_be_imported_and_has_what_it_says() -> None:
    for folder in MODULES:
        for file in folder.rglob("*.py"):
            path = file.relative_to(folder.parent).with_suffix("").parts
            name = ".".join(part for part in path if part != "__init__")
            if not name.endswith("__main__"):
                module = importlib.import_module(name)
                assert all(hasattr(module, each) for each in getattr(module, "__all__", [])), name


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


@pytest.mark.parametrize("name", missing.WHY)
def test_what_is_missing_is_named_with_its_reason(name: str) -> None:
    module, _, last = name.rpartition(".")
    with pytest.raises(ImportError) as imported:
        exec(f"from {module} import {last}")
    with pytest.raises(AttributeError) as asked:
        getattr(importlib.import_module(module), last)
    message = f"kungfu_tf.compat has no {name}: {missing.WHY[name]}"
    assert (str(imported.value), str(asked.value)) == (message, message)
    page = f"{name.split('.')[0]}.md"
    assert f"`{name}`" in (ROOT / "docs" / "migrate" / page).read_text()


def test_a_slip_of_the_pen() -> None:
    with pytest.raises(ImportError, match=r"knows no kungfu.python.run_barier; did you mean run_b"):
        exec("from kungfu.python import run_barier")
    with pytest.raises(ImportError, match=r"knows no kungfu.tensorflow.opts; did you mean ops"):
        exec("import kungfu.tensorflow.opts")
