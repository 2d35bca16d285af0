"""What `import kungfu_tf` shows, and that it does nothing."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kungfu_tf as kf

TESTS = Path(__file__).parents[2]

# All that is public, and how it may be called; None: a module, an error, or an enumeration.
PUBLIC = {
    "DistributedGradientTape": (
        "(tape, *, bucket_bytes=26214400, samples=None, op='mean', predivide=1.0, group=None, "
        "compression=None)"
    ),
    "Group": "(ranks)",
    "Monitor": (
        "(*, optimizer=None, log_dir=None, port=None, address='127.0.0.1', token=None, "
        "latencies=False)"
    ),
    "all_gather_object": "(obj, *, pickle=False, name='object', group=None)",
    "all_reduce_int_max": "(x)",
    "average_variables": "(model_or_variables)",
    "barrier": "(*, name='barrier')",
    "broadcast_object": "(obj, *, root=0, pickle=False, name='object', group=None)",
    "calc_stats": "()",
    "callbacks": None,
    "check_interference": "(*, threshold=0.8)",
    "compression": None,
    "data": None,
    "detached": "()",
    "elastic": None,
    "errors": None,
    "hooks": None,
    "host_count": "()",
    "init": "()",
    "init_progress": "()",
    "initializer": None,
    "is_root": "()",
    "joining": "()",
    "launch": "(fn, np, *, timeout=None)",
    "layers": None,
    "local_rank": "()",
    "local_size": "()",
    "log_stats": "()",
    "membership_version": "()",
    "ops": None,
    "optimizers": None,
    "policy": None,
    "print_strategy_stats": "()",
    "propose_new_size": "(n)",
    "rank": "()",
    "resize": "(*, n=None, progress=None)",
    "run_on_root": "(fn, *, wait=False)",
    "shutdown": "()",
    "size": "()",
    "start_timeline": "(path)",
    "stop_timeline": "()",
    "topology": None,
    "uid": "()",
    "variables": None,
    "verify": "(step)",
    "callbacks.BroadcastGlobalVariablesCallback": (
        "(*, root=0, check_every=1, repairs_rounding=False)"
    ),
    "callbacks.ElasticCallback": "(schedule)",
    "callbacks.LearningRateScheduleCallback": (
        "(initial_lr, multiplier, *, start_epoch=0, end_epoch=None, "
        "staircase=True, steps_per_epoch=None)"
    ),
    "callbacks.LearningRateWarmupCallback": (
        "(initial_lr, *, warmup_epochs=5, steps_per_epoch=None)"
    ),
    "callbacks.MetricAverageCallback": "()",
    "callbacks.MonitorCallback": (
        "(*, log_dir=None, port=None, address='127.0.0.1', token=None, latencies=False)"
    ),
    "callbacks.PolicyCallback": "(policies, *, batch_size=None, on_error='stop')",
    "callbacks.scale_learning_rate": "(lr, *, warmup_steps=0)",
    "compression.BySize": "(codec, *, at_least=65536, otherwise=None)",
    "compression.Cast": "(dtype)",
    "compression.Channel": (
        "(name, *, agree=(), step=None, scale=1.0, is_finite=True, bucket_bytes=26214400)"
    ),
    "compression.Codec": "()",
    "compression.ErrorFeedback": "(codec)",
    "compression.Int4": "(*, block=128)",
    "compression.Int8": "(*, block=256)",
    "compression.PowerSGD": "(*, rank=4, start_step=0, min_rate=2)",
    "compression.TopK": "(*, ratio=0.01, at_least=1024)",
    "data.adapt": "(layer, dataset)",
    "data.even": "(dataset, *, cardinality=None, name='even')",
    "data.from_cluster": "(batch_size)",
    "data.join": "()",
    "data.parquet": "(files, batch_size, *, columns=None)",
    "data.Position": "(*, epoch=0, sample=0)",
    "data.shard": ("(dataset, *, remainder='drop', shuffle=None, seed=0, position=None)"),
    "data.tfrecords": "(files, features, batch_size, *, compression='')",
    "data.write_tfrecords": "(rows, folder)",
    "elastic.ElasticCallback": "(schedule)",
    "elastic.ElasticContext": "(state, *, progress=1)",
    "elastic.ElasticState": "(max_progress, *, progress=0)",
    "elastic.fit": "(model, x, *, y=None, initial_sample=0, seed=0, **arguments)",
    "errors.AbortedError": None,
    "errors.CancelledError": None,
    "errors.DeadlineExceededError": None,
    "errors.DivergenceError": None,
    "errors.FailedPreconditionError": None,
    "errors.InternalError": None,
    "errors.InvalidArgumentError": None,
    "errors.KungfuError": None,
    "errors.LibraryError": None,
    "errors.PeerFailedError": None,
    "errors.PermissionDeniedError": None,
    "errors.PolicyError": None,
    "errors.ResourceExhaustedError": None,
    "errors.UnavailableError": None,
    "errors.UnimplementedError": None,
    "errors.UnsupportedTypeError": None,
    "errors.UnsupportedVersionError": None,
    "errors.VerificationError": None,
    "hooks.ElasticHook": "(schedule, max_step)",
    "hooks.MonitorHook": (
        "(*, every_steps=100, log_dir=None, port=None, address='127.0.0.1', token=None, "
        "latencies=False)"
    ),
    "hooks.PolicyHook": ("(policies, epoch_size, epoch_num, init_batch_size, *, on_error='stop')"),
    "initializer.BroadcastGlobalVariablesCallback": (
        "(*, root=0, check_every=1, repairs_rounding=False)"
    ),
    "initializer.BroadcastGlobalVariablesHook": "(*, root=0, check_every=1000)",
    "initializer.BroadcastGlobalVariablesOp": "()",
    "initializer.broadcast_variables": "(variables, *, root=0, group=None)",
    "layers.SyncBatchNormalization": "(**arguments)",
    "layers.local": "(layer, *, scale=None)",
    "layers.synchronize": "(model)",
    "ops.adasum": "(x, *, name=None, group=None)",
    "ops.all_gather": "(tensor, *, concat=False, name=None, group=None)",
    "ops.all_reduce": ("(tensor, *, op='sum', prescale=1.0, postscale=1.0, name=None, group=None)"),
    "ops.all_to_all": "(tensor, *, splits=None, return_splits=False, name=None, group=None)",
    "ops.barrier": "(*, name=None, group=None)",
    "ops.begin_group_all_reduce": "(values, *, name, op='sum', step=None, group=None)",
    "ops.broadcast": "(tensor, *, root=0, name=None, group=None)",
    "ops.calc_stats": "(*, name=None)",
    "ops.cluster_size": "(*, name=None)",
    "ops.consensus": "(tensor, *, name=None, group=None)",
    "ops.counter": "(*, init=0, incr=1, name=None)",
    "ops.defuse": "(tensor, shapes, *, name=None)",
    "ops.egress_rates": "(*, name=None)",
    "ops.end_group_all_reduce": "(specs, *, name, group=None)",
    "ops.exponential_moving_average": "(x, *, alpha=0.9, name=None)",
    "ops.parents": "(edges, *, name=None)",
    "ops.fuse": "(values, *, name=None)",
    "ops.gather": "(tensor, *, root=0, concat=False, name=None, group=None)",
    "ops.get_neighbour_mask": "(edges, *, name=None)",
    "ops.get_peer_latencies": "(*, timeout=5.0, name=None)",
    "ops.global_minimum_spanning_tree": "(weights, *, name=None)",
    "ops.global_noise_scale": (
        "(batch_small, batch_big, tensor, avg_tensor, *, alpha=0.6, name=None)"
    ),
    "ops.group_adasum": "(values, *, name=None, group=None)",
    "ops.group_all_gather": "(values, *, concat=False, name=None, group=None)",
    "ops.group_all_reduce": (
        "(values, *, op='sum', prescale=1.0, postscale=1.0, name=None, step=None, group=None)"
    ),
    "ops.group_all_to_all": (
        "(values, *, splits=None, return_splits=False, name=None, group=None)"
    ),
    "ops.group_broadcast": "(values, *, root=0, name=None, group=None)",
    "ops.begin_group_neighbor_all_reduce": (
        "(values, *, name, topology=None, step=0, self_weight=None, src_weights=None, "
        "dst_weights=None, group=None)"
    ),
    "ops.hierarchical_neighbor_all_reduce": (
        "(tensor, *, topology=None, step=0, self_weight=None, src_weights=None, "
        "dst_weights=None, name=None)"
    ),
    "ops.Window": "(name, topology, template, *, zeros)",
    "ops.group_neighbor_all_reduce": (
        "(values, *, topology=None, step=0, self_weight=None, src_weights=None, dst_weights=None, "
        "name=None, group=None)"
    ),
    "ops.group_reduce_scatter": (
        "(values, *, op='sum', prescale=1.0, postscale=1.0, name=None, group=None)"
    ),
    "ops.ingress_rates": "(*, name=None)",
    "ops.monitored_all_reduce": "(tensor, *, tree=None, op='sum', name=None, group=None)",
    "ops.neighbor_all_gather": (
        "(tensor, *, topology=None, step=0, sources=None, targets=None, concat=False, name=None, "
        "group=None)"
    ),
    "ops.neighbor_all_reduce": (
        "(tensor, *, topology=None, step=0, self_weight=None, src_weights=None, dst_weights=None, "
        "name=None, group=None)"
    ),
    "ops.new_queue": "(src, dst, *, capacity=16, timeout=None, name=None)",
    "ops.new_window": "(template, *, topology, name, zeros=False)",
    "ops.pair_gossip": (
        "(tensor, target, *, self_weight=0.5, pair_weight=0.5, name=None, group=None)"
    ),
    "ops.peer_info": "(*, name=None)",
    "ops.rank": "(*, name=None)",
    "ops.reduce": "(tensor, op, *, root=0, name=None, group=None)",
    "ops.reduce_scatter": (
        "(tensor, *, op='sum', prescale=1.0, postscale=1.0, name=None, group=None)"
    ),
    "ops.request_variable": (
        "(target, *, name, shape, dtype, version=None, wait=True, timeout=None)"
    ),
    "ops.request_variable_with_template": (
        "(target, template, *, version=None, name=None, wait=True, timeout=None)"
    ),
    "ops.resize": "(n, *, name=None)",
    "ops.round_robin": "(mask, *, name=None)",
    "ops.save_variable": "(value, *, version=None, name=None)",
    "ops.save_variables": "(variables)",
    "ops.set_strategy": "(strategy, *, name=None)",
    "ops.set_tree": "(tree, *, name=None)",
    "ops.step_based_schedule": "(schedule, step, *, name=None)",
    "ops.subset_all_reduce": "(tensor, topology, *, op='sum', name=None, group=None)",
    "optimizers.AdasumOptimizer": "(optimizer, *, group=None)",
    "optimizers.AdaptiveSGDOptimizer": "(optimizer, change_step, *, alpha=0.1, group=None)",
    "optimizers.Algorithm": "()",
    "optimizers.DecentralizedSGDOptimizer": (
        "(optimizer, *, topology=None, style='atc', every=1, overlap=False, group=None)"
    ),
    "optimizers.DiLoCoOptimizer": (
        "(optimizer, *, outer=None, every=100, fragments=1, overlap=0, merge=0.5, island=None, "
        "gossip=None, compression=None, group=None)"
    ),
    "optimizers.ExactDiffusionOptimizer": "(optimizer, *, topology=None, group=None)",
    "optimizers.GradientTrackingOptimizer": "(optimizer, *, topology=None, group=None)",
    "optimizers.LocalSGDOptimizer": "(optimizer, *, every, start=0, compression=None, group=None)",
    "optimizers.Meets": None,
    "optimizers.MonitorGradientNoiseScaleOptimizer": (
        "(optimizer, device_batch_size, *, monitor_interval=1, alpha=0.9, group=None, "
        "compression=None)"
    ),
    "optimizers.MonitorGradientVarianceOptimizer": (
        "(optimizer, *, monitor_interval=1, group=None, compression=None)"
    ),
    "optimizers.PairAveragingOptimizer": "(optimizer, *, fuse_requests=True, group=None)",
    "optimizers.ParameterServerOptimizer": "(optimizer, *, staleness=None)",
    "optimizers.PushSumOptimizer": "(optimizer, *, topology, asynchronous=False, group=None)",
    "optimizers.QuasiGlobalMomentumOptimizer": (
        "(optimizer, *, momentum=0.9, topology=None, group=None)"
    ),
    "optimizers.ShardedOptimizer": "(optimizer, *, bucket_bytes=26214400, group=None)",
    "optimizers.SynchronousAveragingOptimizer": (
        "(optimizer, *, alpha=0.1, momentum=0.0, group=None)"
    ),
    "optimizers.SynchronousSGDOptimizer": (
        "(optimizer, *, bucket_bytes=26214400, monitor=False, op='mean', predivide=1.0, "
        "steps_per_update=1, group=None, compression=None)"
    ),
    "optimizers.wrap": "(optimizer, make_algorithm, *, group=None)",
    "policy.AdaScalePolicy": "(rate, *, steps=None)",
    "policy.BasePolicy": "()",
    "policy.GoodputPolicy": (
        "(max_batch_size, *, min_batch_size=1, interval=100, scale_learning_rate='linear')"
    ),
    "policy.InterferenceStrategyPolicy": "(strategies, *, interval=100, threshold=0.8)",
    "policy.LatencyTreePolicy": "(*, interval=None)",
    "policy.NoiseScaleBatchSizePolicy": (
        "(max_batch_size, *, min_batch_size=1, interval=100, scale_learning_rate='linear')"
    ),
    "policy.ScheduledBatchSizePolicy": "(schedule, *, scale_learning_rate='none')",
    "policy.ScheduledClusterSizePolicy": "(schedule)",
    "policy.Training": "()",
    "ray.KungfuConfig": "()",
    "ray.run": (
        "(fn, np, *, min_np=None, max_np=None, args=(), kwargs=None, data=None, resources=None, "
        "strategy='PACK', env=None, restarts=0, start_timeout=300.0, timeout=None)"
    ),
    "ray.trials": (
        "(fn, grid, *, resources=None, env=None, return_errors=False, start_timeout=300.0, "
        "timeout=None)"
    ),
    "spark.run": (
        "(fn, *, num_proc=None, args=(), kwargs=None, data=None, spark=None, env=None, restarts=0, "
        "start_timeout=300.0, timeout=None)"
    ),
    "spark.trials": (
        "(fn, grid, *, spark=None, env=None, return_errors=False, start_timeout=300.0, "
        "timeout=None)"
    ),
    "topology.Neighbors": "(self_weight, sources, targets)",
    "topology.Topology": "(text, length, matrix, *, key=None)",
    "topology.base_graph": "(*, degree=1)",
    "topology.check": "(topology, size, *, doubly=True, symmetric=False, rows=True)",
    "topology.equi_dynamic": "(*, seed)",
    "topology.equi_static": "(degree, *, seed=0)",
    "topology.exponential": "(*, base=2)",
    "topology.from_matrix": "(matrices)",
    "topology.from_networkx": "(graph)",
    "topology.fully_connected": "()",
    "topology.grid": "(*, torus=False)",
    "topology.hierarchical": "(across, local_size, *, within=None)",
    "topology.hypercube": "()",
    "topology.metropolis": "(edges)",
    "topology.one_peer": "(topology)",
    "topology.one_peer_exponential": "()",
    "topology.random_matching": "(*, seed)",
    "topology.ring": "(*, directed=False)",
    "topology.star": "(*, center=0)",
    "topology.symmetric_exponential": "(*, base=4)",
    "variables.GraphKeys": "()",
    "variables.combine": "(variable, how)",
    "variables.create_global_variable": "(key, *, value=0, dtype=tf.int64)",
    "variables.create_setter": "(variable)",
    "variables.eval_batch_size": "(*, session=None)",
    "variables.eval_global_variable": "(key, *, session=None)",
    "variables.eval_gradient_noise_scale": "(*, session=None)",
    "variables.get_batch_size": "()",
    "variables.get_global_variable": "(key)",
    "variables.get_or_create_batch_size": "(value)",
    "variables.get_or_create_global_variable": "(key, *, value=0, dtype=tf.int64)",
}

SHOWN = [module for name in kf.__all__ if inspect.ismodule(module := getattr(kf, name))]
MODULES = [kf, *SHOWN, kf.ray, kf.spark]


def public() -> Iterator[tuple[str, Any]]:
    """The public names, those of modules behind the module's, and what they stand for."""
    for module in MODULES:
        path = "" if module is kf else module.__name__.removeprefix("kungfu_tf.") + "."
        yield from ((path + name, getattr(module, name)) for name in module.__all__)


def signature_of(value: Any) -> str | None:
    """Without types, as in the table."""
    if inspect.ismodule(value) or (inspect.isclass(value) and issubclass(value, (Exception, Enum))):
        return None
    empty = inspect.Parameter.empty
    signature = inspect.signature(value)
    parameters = [p.replace(annotation=empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=empty))


def test_the_table_is_what_can_be_imported() -> None:
    assert {name: signature_of(value) for name, value in public()} == PUBLIC


@pytest.mark.parametrize("name", [name for name, signature in PUBLIC.items() if signature])
def test_only_what_is_required_is_positional(name: str) -> None:
    for parameter in inspect.signature(dict(public())[name]).parameters.values():
        is_required = parameter.default is inspect.Parameter.empty
        assert is_required or parameter.kind is inspect.Parameter.KEYWORD_ONLY, parameter


def test_everything_has_a_docstring() -> None:
    for name, value in public():
        assert value.__doc__, name


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_what_is_public_is_shown(module: ModuleType) -> None:
    assert module.__all__ == sorted(set(module.__all__))
    assert set(module.__all__) <= set(dir(module))


def test_every_name_is_used_by_a_test() -> None:
    used: set[str] = set()
    for file in TESTS.rglob("*.py"):
        used |= set(names_in(ast.parse(file.read_text())))
    unused = {name for name, _ in public()} - {name.removeprefix("kungfu_tf.") for name in used}
    assert not unused


def names_in(tree: ast.AST) -> Iterator[str]:
    """The dotted names of a program, and of programs in its strings, by what was imported as what:
    "kungfu_tf.ops.fuse" for `kf.ops.fuse`."""
    origin: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            origin.update({alias.asname or alias.name: alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom):
            origin.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)):
            first, *rest = ast.unparse(node).split(".")
            yield ".".join([origin.get(first, first), *rest])
        elif isinstance(node, ast.Constant) and "kungfu_tf" in str(node.value):
            try:
                yield from names_in(ast.parse(str(node.value)))
            except SyntaxError:
                continue


def test_a_star_hides_no_package_of_a_user() -> None:
    assert run("ray = spark = 1; from kungfu_tf import *; print(ray, spark)") == "1 1\n"
    assert {"ray", "spark"} <= set(dir(kf))


def test_names_of_the_same() -> None:
    callback = kf.initializer.BroadcastGlobalVariablesCallback
    assert callback is kf.callbacks.BroadcastGlobalVariablesCallback


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="all_reduse"):
        _ = kf.all_reduse


def run(program: str) -> str:
    """What a new process prints."""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_does_nothing() -> None:
    program = (
        "import sys, threading, kungfu_tf, kungfu_tf.launcher.command.kungfu_run; "
        "print('tensorflow' in sys.modules, threading.active_count(), "
        "'libkungfu' in open('/proc/self/maps').read())"
    )
    assert run(program) == "False 1 False\n"


def test_the_process_api_needs_no_tensorflow() -> None:
    program = (
        "import sys, kungfu_tf as kf; kf.init(); kf.barrier(); "
        "print(kf.rank(), kf.size(), kf.local_rank(), kf.local_size(), kf.host_count(), "
        "kf.membership_version(), kf.is_root(), kf.run_on_root(lambda: 'ran'), "
        "'tensorflow' in sys.modules)"
    )
    assert run(program) == "0 1 0 1 1 0 True ran False\n"


def test_after_shutdown_there_is_no_peer() -> None:
    program = (
        "import kungfu_tf as kf; kf.init(); kf.shutdown(); kf.shutdown()\n"
        "try: kf.rank()\n"
        "except kf.errors.FailedPreconditionError as error: print(error)\n"
        "try: kf.barrier()\n"
        "except kf.errors.FailedPreconditionError as error: print(error)"
    )
    assert run(program).count("shut down") == 2


def test_after_a_shutdown_no_peer_starts() -> None:
    program = (
        "import kungfu_tf as kf; kf.shutdown()\n"
        "try: kf.rank()\n"
        "except kf.errors.FailedPreconditionError as error: print(error)\n"
    )
    assert "shut down" in run(program)


def test_a_forked_child_is_told_that_it_is_no_peer() -> None:
    program = (
        "import os, kungfu_tf as kf; kf.init(); pid = os.fork()\n"
        "try: kf.barrier()\n"
        "except kf.errors.FailedPreconditionError as error: print(error, kf.size(), flush=True)\n"
        "if pid: os.waitpid(pid, 0)"
    )
    assert re.search(r"forked.* 1\n", run(program))
