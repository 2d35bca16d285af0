"""The place of a process, by the variables of each launcher."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping

import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.environments import detection, slurm
from kungfu_tf.exchange import alone_among_several

Environ = Mapping[str, str]


def tf_config(kind: str = "worker", index: int = 0, **tasks: int) -> Environ:
    cluster = {kind: [f"{kind}-{n}:2222" for n in range(many)] for kind, many in tasks.items()}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


# As tf.train.ClusterSpec takes it: tasks by their indices.
SPARSE = {
    "TF_CONFIG": json.dumps(
        {
            "cluster": {"worker": {"7": "c:2222", "3": "b:2222"}},
            "task": {"type": "worker", "index": 7},
        }
    )
}
TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "host-a",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "run",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_NTASKS": "7",
    "SLURM_PROCID": "4",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "n[03-04,9],m1",
    "SLURM_STEP_TASKS_PER_NODE": "3(x2),1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_RESV_PORTS": "12010-12016",
    "SLURM_RESTART_COUNT": "1",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_MCA_orte_hnp_uri": "51.0;tcp://10.0.0.9,172.17.0.1:40001",
}
PMI = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
INDEXED = {"JOB_COMPLETION_INDEX": "2", "KUNGFU_SIZE": "4", "KUNGFU_LEADER": "job-0.service:7000"}
BY_PMI = ("MPICH, or another MPI with PMI,", 1, 2)
KERAS = {
    "KERAS_DISTRIBUTION_JOB_ADDRESSES": "a:7001, b:7002",
    "KERAS_DISTRIBUTION_PROCESS_ID": "1",
}
SKYPILOT = {
    "SKYPILOT_NODE_RANK": "1",
    "SKYPILOT_NODE_IPS": "10.0.0.5\n10.0.0.4\n",
    "SKYPILOT_NUM_NODES": "2",
    "SKYPILOT_NUM_GPUS_PER_NODE": "8",
    "SKYPILOT_TASK_ID": "sky-2026-11-29-10-00-00-000000_train_1",
}
DSTACK = {
    "DSTACK_NODE_RANK": "2",
    "DSTACK_NODES_IPS": "10.0.0.7\n10.0.0.8\n10.0.0.9",
    "DSTACK_MASTER_NODE_IP": "10.0.0.7",
    "DSTACK_NODES_NUM": "3",
    "DSTACK_RUN_NAME": "train",
}
BELOW_SLURM = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "n1"}

# launcher, rank, size, host and port of rank 0, own port, local rank and size, restarts
PLACES = [
    (tf_config(worker=2), "TF_CONFIG", 0, 2, "worker-0", 2222, 2222, None, None, 0),
    (
        tf_config(index=1, chief=1, worker=2, ps=3),
        *("TF_CONFIG", 2, 3, "chief-0", 2222, 2222, None, None, 0),
    ),
    (SPARSE, "TF_CONFIG", 1, 2, "b", 2222, 2222, None, None, 0),
    (TORCHRUN, "torchrun or a similar launcher", 5, 8, "host-a", 29501, 0, 1, 4, 2),
    (SLURM, "Slurm's srun", 4, 7, "n03", 12010, 0, 1, 3, 1),
    (OPEN_MPI, "Open MPI", 1, 3, "10.0.0.9", None, 0, 1, 2, 0),
    (PMI, *BY_PMI, "127.0.0.1", None, 0, 1, 2, 0),
    (
        {"PMIX_RANK": "1", "PMIX_NAMESPACE": "n", "KUNGFU_SIZE": "2", "KUNGFU_LEADER": "a"},
        *("PMIx", 1, 2, "a", None, 0, None, None, 0),
    ),
    (
        *(INDEXED, "an Indexed Job of Kubernetes", 2, 4),
        *("job-0.service", 7000, 0, None, None, 0),
    ),
    (KERAS, "Keras", 1, 2, "a", 7001, 7002, None, None, 0),
    (SKYPILOT, "SkyPilot", 1, 2, "10.0.0.5", None, 0, 0, 1, 0),
    (DSTACK, "dstack", 2, 3, "10.0.0.7", None, 0, 0, 1, 0),
    # What is nearer to the program counts, and what knows more.
    (
        {**TORCHRUN, **BELOW_SLURM},
        *("torchrun or a similar launcher", 5, 8, "host-a", 29501, 0, 1, 4, 2),
    ),
    (
        {**TORCHRUN, **SKYPILOT},
        *("torchrun or a similar launcher", 5, 8, "host-a", 29501, 0, 1, 4, 2),
    ),
    (
        {"PMI_RANK": "4", "PMI_SIZE": "7", **SLURM},
        *("Slurm's srun", 4, 7, "n03", 12010, 0, 1, 3, 1),
    ),
    ({"RANK": "0", "WORLD_SIZE": "1", **PMI}, *BY_PMI, "127.0.0.1", None, 0, 1, 2, 0),
    ({**PMI, "KUNGFU_LEADER": "[::1]:7000"}, *BY_PMI, "::1", 7000, 0, 1, 2, 0),
]


@pytest.mark.parametrize(
    ("environ", "launcher", "rank", "size", "host", "port", "own", "local_rank", "local", "again"),
    PLACES,
)
def test_each_launcher_tells_the_place(
    environ: Environ,
    launcher: str,
    rank: int,
    size: int,
    host: str,
    port: int | None,
    own: int,
    local_rank: int | None,
    local: int | None,
    again: int,
) -> None:
    place = detection.detect(environ)
    assert place is not None
    assert (place.launcher, place.rank, place.size) == (launcher, rank, size)
    assert place.meeting_place[0] == host
    if port is None:
        assert 16384 <= place.meeting_place[1] < 32768
    else:
        assert place.meeting_place[1] == port
    assert (place.own_port, place.local_rank, place.local_size) == (own, local_rank, local)
    assert place.restarts == again


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {**SLURM, "KUNGFU_SELF": "127.0.0.1:10000"},
        {**SLURM, "KUNGFU_ENVIRONMENT": "none"},
        tf_config(chief=1, evaluator=1),
        tf_config("evaluator", chief=1, worker=3, evaluator=1),
        tf_config("ps", worker=2, ps=1),
        {"TF_CONFIG": "[]"},
        {"TF_CONFIG": "{"},
        {"WORLD_SIZE": "1", "RANK": "0"},
        {"WORLD_SIZE": "large", "RANK": "0"},
        {"WORLD_SIZE": "4"},
        {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"},
        {"PMI_SIZE": "1", "PMI_RANK": "0"},
        {"SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
        {"JOB_COMPLETION_INDEX": "0", "KUNGFU_SIZE": "1"},
        {"KERAS_DISTRIBUTION_NUM_PROCESSES": "1"},
        {"KERAS_DISTRIBUTION_JOB_ADDRESSES": "a:1"},
        {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NODE_IPS": "10.0.0.5"},
        {"DSTACK_NODE_RANK": "0", "DSTACK_NODES_IPS": "10.0.0.5", "DSTACK_NODES_NUM": "1"},
    ],
)
def test_one_process_is_one(environ: Environ) -> None:
    assert detection.detect(environ) is None


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {**tf_config(worker=2), **OPEN_MPI},
            "TF_CONFIG .* rank 0 of 2, and Open MPI .OMPI_COMM_WORLD_RANK=1.* rank 1 of 3",
        ),
        (
            {**tf_config("ps", worker=2, ps=1), **OPEN_MPI},
            "TF_CONFIG .* parameter server 0, and Open MPI .* rank 1 of 3",
        ),
        ({**SLURM, **KERAS}, "Slurm.* rank 4 of 7, and Keras .* rank 1 of 2"),
        ({**KERAS, **DSTACK}, "Keras .* rank 1 of 2, and dstack .* rank 2 of 3"),
        ({"RANK": "1", "WORLD_SIZE": "2", **SLURM}, "RANK=1, WORLD_SIZE=2.* and Slurm"),
        ({"JOB_COMPLETION_INDEX": "0"}, "no variable tells the number .* set KUNGFU_SIZE"),
        ({"PMIX_RANK": "0"}, "no variable tells the number .* KUNGFU_ENVIRONMENT=none"),
        ({"KERAS_DISTRIBUTION_NUM_PROCESSES": "2"}, "set KERAS_DISTRIBUTION_PROCESS_ID"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 of 2: ranks begin at 0"),
        ({"JOB_COMPLETION_INDEX": "3", "KUNGFU_SIZE": "2"}, "rank 3 of 2: ranks begin at 0"),
        ({**PMI, "KUNGFU_LEADER": "a:b"}, "KUNGFU_LEADER: 'a:b' is not host:port"),
        ({"KUNGFU_ENVIRONMENT": "slurm"}, "expected auto or none"),
    ],
)
def test_what_cannot_be_used_is_an_error(environ: Environ, message: str) -> None:
    with pytest.raises(errors.KungfuError, match=message):
        detection.detect(environ)


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        (tf_config("ps", 2, worker=2, ps=3), "this process parameter server 2, and the workers"),
        (tf_config("ps", ps=1), None),  # others train elsewhere
        ({**tf_config("ps", worker=2, ps=1), "KUNGFU_ENVIRONMENT": "none"}, None),
        ({**tf_config("ps", worker=2, ps=1), "KUNGFU_SELF": "127.0.0.1:10000"}, None),
        (tf_config("evaluator", worker=2, evaluator=1), None),
        (tf_config(worker=2, ps=1), None),
        ({"TF_CONFIG": "[]"}, None),
        ({}, None),
    ],
)
def test_a_parameter_server_has_nothing_to_do(environ: Environ, why: str | None) -> None:
    found = detection.nothing_to_do(environ)
    assert found is None if why is None else why in str(found)


def test_a_parameter_server_of_another_launcher_too_is_an_error() -> None:
    with pytest.raises(errors.FailedPreconditionError, match="unset the variables of one"):
        detection.nothing_to_do({**tf_config("ps", worker=2, ps=1), **OPEN_MPI})


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}, "its Slurm job has 4 tasks"),
        ({"TF_CONFIG": "{"}, "its TF_CONFIG cannot be read: Expecting property name"),
        ({"TF_CONFIG": "[]"}, "its TF_CONFIG cannot be read: 'list'"),
        (tf_config("worker", 2, worker=2), "its TF_CONFIG makes it worker 2, which is not in its"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'}, "has a cluster, and no task"),
        ({"WORLD_SIZE": "2", "RANK": "-1"}, "WORLD_SIZE is 2, and RANK is '-1'. Correct that"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2, and RANK is not set"),
        ({"WORLD_SIZE": "1"}, None),
        (TORCHRUN, None),
        ({"KUNGFU_SIZE": "4"}, "KUNGFU_SIZE is 4. Start the program by a launcher"),
        ({"KUNGFU_SIZE": "4", "KUNGFU_ENVIRONMENT": "none"}, None),
        ({"KUNGFU_SIZE": "1"}, None),
        ({"KUNGFU_SIZE": "4", "JOB_COMPLETION_INDEX": "0"}, None),
        ({"TF_CONFIG": "{", "KUNGFU_ENVIRONMENT": "none"}, None),
        ({"TF_CONFIG": "{}"}, None),
        (tf_config("evaluator", worker=2, evaluator=1), None),
        (tf_config("ps", worker=2, ps=1), None),
        (tf_config(worker=1), None),
        ({}, None),
    ],
)
def test_one_process_that_seems_to_be_one_of_several(environ: Environ, why: str | None) -> None:
    found = detection.doubt(environ)
    assert found is None if why is None else why in str(found)


def test_jobs_and_their_restarts_are_told_apart() -> None:
    told = [
        SLURM,
        {**SLURM, "SLURM_JOB_ID": "8"},
        {**SLURM, "SLURM_STEP_ID": "1"},
        {**SLURM, "SLURM_RESTART_COUNT": "0"},
        TORCHRUN,
        {**TORCHRUN, "TORCHELASTIC_RUN_ID": "other"},
    ]
    places = [detection.detect(environ) for environ in told]
    assert len({place.job_id for place in places if place is not None}) == len(told)
    other = detection.detect({**SLURM, "SLURM_PROCID": "0", "SLURM_NODEID": "0"})
    assert other is not None
    assert places[0] is not None
    assert other.job_id == places[0].job_id


@pytest.mark.parametrize(
    ("environ", "restarts"),
    [
        ({}, 0),
        (SLURM, 1),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "3"}, 3),  # in the batch script
        ({**SLURM, "KUNGFU_ENVIRONMENT": "none"}, 0),
    ],
)
def test_slurm_counts_how_often_the_job_starts_anew(environ: Environ, restarts: int) -> None:
    assert detection.restarts(environ) == restarts


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n1", "n1"),
        ("a,b", "a"),
        ("n[3-5]", "n3"),
        ("n[07,9-11],m1", "n07"),
        ("r[1-2]n[3,4]-x,b", "r1n3-x"),
        ("", ""),
    ],
)
def test_the_first_of_slurms_nodes(nodes: str, first: str) -> None:
    assert slurm.first_node(nodes) == first


@pytest.mark.parametrize(
    ("text", "tasks"), [("1", [1]), ("3(x2),1", [3, 3, 1]), ("2,4(x3)", [2, 4, 4, 4]), ("", [])]
)
def test_the_tasks_of_slurms_nodes(text: str, tasks: list[int]) -> None:
    assert slurm.tasks_of_nodes(text) == tasks


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch script of a Slurm job, without srun."""
    for name in os.environ:
        if name.startswith(("KUNGFU_SELF", "SLURM_", "TF_CONFIG")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    monkeypatch.setattr(alone_among_several, "_has_warned", False)


def wrap() -> None:
    kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.1))


@pytest.mark.usefixtures("batch")
@pytest.mark.parametrize("begin", [wrap, lambda: kf.DistributedGradientTape(tf.GradientTape())])
def test_whoever_trains_alone_in_a_job_of_several_tasks_is_warned_once(
    begin: Callable[[], None],
) -> None:
    with pytest.warns(UserWarning, match=r"2 tasks: SLURM_NTASKS=2. .* srun python") as told:
        begin()
        begin()
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.usefixtures("batch")
@pytest.mark.parametrize(
    "variables",
    [
        {"KUNGFU_SELF": "127.0.0.1:10000"},
        {"KUNGFU_ENVIRONMENT": "none"},
        {"SLURM_STEP_NUM_TASKS": "2"},
        PMI,
    ],
)
def test_a_peer_is_not_warned(variables: Environ, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrap()
