"""A process of several that another launcher has started is told that it trains alone."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping

import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.environments import detection
from kungfu_tf.exchange import alone_among_several


def tf_config(**tasks: int) -> str:
    cluster = {kind: [f"10.0.0.{n}:2222" for n in range(many)] for kind, many in tasks.items()}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})


SEVERAL = [
    ({"TF_CONFIG": tf_config(worker=2)}, "TF_CONFIG", 2),
    ({"TF_CONFIG": tf_config(chief=1, worker=2, ps=3)}, "TF_CONFIG", 3),
    ({"WORLD_SIZE": "4", "RANK": "1"}, "WORLD_SIZE", 4),
    ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_SIZE", 2),
    ({"PMI_SIZE": "3", "PMI_RANK": "0"}, "PMI_SIZE", 3),
    ({"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}, "SLURM_STEP_NUM_TASKS", 2),
    ({"SLURM_NTASKS": "8"}, "SLURM_NTASKS", 8),
    ({"JOB_COMPLETION_INDEX": "0"}, "JOB_COMPLETION_INDEX", None),
    ({"KERAS_DISTRIBUTION_NUM_PROCESSES": "2"}, "KERAS_DISTRIBUTION_NUM_PROCESSES", 2),
    ({"KERAS_DISTRIBUTION_JOB_ADDRESSES": "a:1,b:1"}, "KERAS_DISTRIBUTION_JOB_ADDRESSES", 2),
    ({"WORLD_SIZE": "1", "RANK": "0", "SLURM_NTASKS": "2"}, "SLURM_NTASKS", 2),
]
ONE = [
    {},
    {"TF_CONFIG": tf_config(chief=1, evaluator=1)},
    {"TF_CONFIG": "[]"},
    {"TF_CONFIG": "{"},
    {"WORLD_SIZE": "1", "RANK": "0"},
    {"WORLD_SIZE": "large", "RANK": "0"},
    {"WORLD_SIZE": "4"},
    {"OMPI_COMM_WORLD_SIZE": "1"},
    {"PMI_SIZE": "1", "PMI_RANK": "0"},
    {"SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
    {"KERAS_DISTRIBUTION_NUM_PROCESSES": "1"},
    {"KERAS_DISTRIBUTION_JOB_ADDRESSES": "a:1"},
]


@pytest.mark.parametrize(("environ", "variable", "number"), SEVERAL)
def test_several_processes_are_recognised(
    environ: Mapping[str, str], variable: str, number: int | None
) -> None:
    found = detection.detect(environ)
    assert found is not None
    assert (found.variable, found.text, found.number) == (variable, environ[variable], number)


@pytest.mark.parametrize("environ", ONE)
def test_one_process_is_one(environ: Mapping[str, str]) -> None:
    assert detection.detect(environ) is None


@pytest.fixture
def mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("KUNGFU_SELF", "SLURM_", "TF_CONFIG")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setattr(alone_among_several, "_has_warned", False)


def wrap() -> None:
    kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.1))


@pytest.mark.usefixtures("mpi")
@pytest.mark.parametrize("begin", [wrap, lambda: kf.DistributedGradientTape(tf.GradientTape())])
def test_whoever_trains_alone_among_several_is_warned_once(begin: Callable[[], None]) -> None:
    with pytest.warns(UserWarning, match=r"OMPI_COMM_WORLD_SIZE=2.*kungfu-run -np 2 ") as told:
        begin()
        begin()
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.usefixtures("mpi")
def test_a_peer_is_not_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUNGFU_SELF", "127.0.0.1:10000")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrap()
