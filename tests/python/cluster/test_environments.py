"""Processes that other launchers start are the peers of one job, and train as under kungfu-run."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from foreign import PROGRAM, SECRET, ends, fit, resized, sums, written

from tests import ports
from tests.fault.hosts import A, B, two_hosts


def torchrun(rank: int, size: int, port: int) -> Mapping[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }


def tf_config(rank: int, size: int, port: int) -> Mapping[str, str]:
    kind, index = ("worker", rank - 1) if rank else ("chief", 0)
    return task_of(kind, index, size, port)


def task_of(kind: str, index: int, size: int, port: int) -> Mapping[str, str]:
    """A task of a TFJob in which `size` others train."""
    workers = [f"127.0.0.1:{port + n}" for n in range(size)]
    cluster = {
        "chief": workers[:1],
        "worker": workers[1:],
        "ps": ["ps-0:2222", "ps-1:2222"],
        "evaluator": ["evaluator-0:2222"],
    }
    text = json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})
    return {"TF_CONFIG": text, "KUNGFU_SECRET": SECRET}


def pmi(rank: int, size: int, port: int) -> Mapping[str, str]:
    return {
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "PMI_JOBID": str(port),
        "MPI_LOCALRANKID": str(rank),
        "MPI_LOCALNRANKS": str(size),
    }


def indexed_job(rank: int, size: int, port: int) -> Mapping[str, str]:
    return {
        "JOB_COMPLETION_INDEX": str(rank),
        "KUNGFU_SIZE": str(size),
        "KUNGFU_LEADER": f"localhost:{port}",
        "KUNGFU_SECRET": SECRET,
    }


def keras(rank: int, size: int, port: int) -> Mapping[str, str]:
    return {
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(size),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(rank),
        "KUNGFU_LEADER": f"localhost:{port}",
    }


def skypilot(rank: int, size: int, port: int) -> Mapping[str, str]:
    return {
        "SKYPILOT_NODE_RANK": str(rank),
        "SKYPILOT_NODE_IPS": "127.0.0.1\n" * size,
        "KUNGFU_LEADER": f"127.0.0.1:{port}",
        "KUNGFU_SECRET": SECRET,
    }


KUNGFU_RUN = [sys.executable, "-m", "kungfu_tf.launcher"]
BY_HAND = [torchrun, tf_config, pmi, indexed_job, keras, skypilot]


@pytest.mark.parametrize("variables", BY_HAND)
def test_variables_alone_make_one_job(variables, home: Path) -> None:
    first = ports.take(4)[0]
    environs = [variables(rank, 3, first) for rank in (2, 0, 1)]
    told = ends(sums(), environs)
    assert [out for _, out, _ in told] == [f"{n} 3 {n} 3 20\n" for n in (2, 0, 1)], told
    assert [code for code, _, _ in told] == [0, 0, 0], told


def test_a_peer_that_dies_ends_the_others(home: Path) -> None:
    first = ports.take(2)[0]
    told = ends(sums("1"), [torchrun(rank, 3, first) for rank in range(3)])
    assert [code for code, _, _ in told] == [1, -9, 1], told
    for _, _, error in (told[0], told[2]):
        assert re.search(r"error: .*rank 1 \(127\.0\.0\.1:\d+\)", error), told


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"MASTER_ADDR": ""}, "RANK=0, WORLD_SIZE=2. does not tell where rank 0 is: set KUNGFU_LE"),
        ({"HOME": "/dev/null"}, "there is no secret for this job"),
        ({"KUNGFU_SECRET": "short"}, "KUNGFU_SECRET has 5 characters"),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "RANK=0.* rank 0 of 2, and MPICH.* rank 1 of 2"),
        (tf_config(0, 2, 7000) | {"KUNGFU_SECRET": "", "RANK": ""}, "TF_CONFIG .*need a secret"),
        (skypilot(0, 2, 7000) | {"KUNGFU_SECRET": "", "RANK": ""}, "SkyPilot .*need a secret"),
    ],
)
def test_variables_that_cannot_be_used_are_an_error(
    changes: Mapping[str, str], message: str, home: Path
) -> None:
    ((code, out, error),) = ends(sums(), [torchrun(0, 2, 7000) | changes])
    assert (code, out) == (1, "")
    assert re.search(message, error), error


def test_each_trains_alone_if_that_is_wanted(home: Path) -> None:
    environs = [torchrun(rank, 2, 7000) | {"KUNGFU_ENVIRONMENT": "none"} for rank in range(2)]
    assert [out for _, out, _ in ends(sums(), environs)] == ["0 1 0 1 0\n"] * 2


@pytest.mark.parametrize("variables", BY_HAND)
def test_fit_gives_the_bits_of_kungfu_run(variables, expected: list[str], home: Path) -> None:
    first = ports.take(2)[0]
    environs = [variables(rank, 2, first) for rank in range(2)]
    told = ends(fit(home), environs)
    assert [code for code, _, _ in told] == [0, 0], told
    assert written(home, 2) == expected


def test_a_parameter_server_ends_where_others_train(expected: list[str], home: Path) -> None:
    first = ports.take(2)[0]
    tasks = [("ps", 0), ("worker", 0), ("ps", 1), ("chief", 0)]
    told = ends(fit(home), [task_of(*task, 2, first) for task in tasks])
    assert [code for code, _, _ in told] == [0] * 4, told
    assert written(home, 2) == expected
    for index, (_, _, error) in enumerate((told[0], told[2])):
        assert f"process parameter server {index}, and the workers own the variables" in error


@pytest.mark.parametrize("command", [sums(), [*KUNGFU_RUN, "-np", "2", *sums()]])
def test_a_parameter_server_needs_nobody(command: list[str], home: Path) -> None:
    ((code, out, error),) = ends(command, [task_of("ps", 1, 2, 7000)])
    assert (code, out) == (0, "")
    assert re.fullmatch("kungfu_tf: TF_CONFIG .* it has nothing to do, and ends\n", error), error


def test_an_evaluator_is_one_of_one(home: Path) -> None:
    ((code, out, _),) = ends(sums(), [task_of("evaluator", 0, 2, 7000)])
    assert (code, out) == (0, "0 1 0 1 0\n")


@pytest.fixture
def mpirun(home: Path) -> list[str]:
    found = shutil.which("mpirun")
    if found is None:
        pytest.skip("needs Open MPI's mpirun")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [found, *root, "--oversubscribe", "--bind-to", "none"]


def test_fit_by_mpirun(mpirun: list[str], expected: list[str], home: Path) -> None:
    ((code, out, error),) = ends([*mpirun, "-np", "2", *fit(home)], [{}])
    assert code == 0, out + error
    assert written(home, 2) == expected


def test_a_peer_of_mpirun_that_dies_ends_the_others(mpirun: list[str], home: Path) -> None:
    ((code, _, error),) = ends([*mpirun, "-np", "3", *sums("1")], [{}])
    assert code != 0
    assert "signal 9" in error, error


@pytest.fixture
def mpirun_on_two_hosts(mpirun: list[str], home: Path) -> Iterator[list[str]]:
    """It starts its daemon on the other host by a script in the place of ssh."""
    agent = home / "agent"
    options = ["--mca", "plm_rsh_agent", str(agent), "--host", f"{A}:2,{B}:2"]
    passed_on = ["-x", "PYTHONPATH", "-x", "HOME"]
    with two_hosts() as hosts:
        on_b = f"exec ip netns exec {hosts.names[B]} unshare --uts"
        agent.write_text(f'#!/bin/sh\nshift\n{on_b} sh -c "hostname b; $*"\n')
        agent.chmod(0o755)
        yield ["ip", "netns", "exec", hosts.names[A], *mpirun, *options, *passed_on]


@pytest.mark.exhaustive  # TensorFlow that is imported already is not in a namespace
def test_fit_by_mpirun_on_two_hosts(
    mpirun_on_two_hosts: list[str], expected: list[str], home: Path
) -> None:
    program = [sys.executable, str(PROGRAM), str(home)]
    ((code, out, error),) = ends([*mpirun_on_two_hosts, "--map-by", "ppr:1:node", *program], [{}])
    assert code == 0, out + error
    digests = [line.split()[-1] for line in expected]
    assert written(home, 2) == [f"({n}, 2, 0, 1, 0) {digest}\n" for n, digest in enumerate(digests)]


def test_mpirun_on_two_hosts(mpirun_on_two_hosts: list[str], home: Path) -> None:
    ((code, out, error),) = ends([*mpirun_on_two_hosts, "-np", "3", *sums()], [{}])
    assert code == 0, out + error
    assert sorted(out.splitlines()) == ["0 3 0 2 20", "1 3 1 2 20", "2 3 0 1 20"]


def test_kungfu_run_by_mpirun_on_two_hosts(mpirun_on_two_hosts: list[str], home: Path) -> None:
    kungfu_run = [*KUNGFU_RUN, "-np", "3", *sums()]
    command = [*mpirun_on_two_hosts, "-x", "NO_COLOR", "--map-by", "ppr:1:node", *kungfu_run]
    ((code, out, error),) = ends(command, [{"NO_COLOR": "1"}])
    assert code == 0, out + error
    assert sorted(out.splitlines()) == [
        *(f"[{A}:0] 0 3 0 2 20", f"[{A}:1] 1 3 1 2 20", f"[{B}:2] 2 3 0 1 20")
    ]


def test_kungfu_run_by_skypilot_on_two_hosts(home: Path) -> None:
    kungfu_run = [*KUNGFU_RUN, "-np", "3", *sums()]
    command = ["sh", "-c", 'exec ip netns exec "$NAMESPACE" "$@"', "-", *kungfu_run]
    with two_hosts() as hosts:
        environs = [
            {
                "NAMESPACE": hosts.names[host],
                "SKYPILOT_NODE_RANK": str(rank),
                "SKYPILOT_NODE_IPS": f"{A}\n{B}\n",
                "KUNGFU_SECRET": SECRET,
                "NO_COLOR": "1",
            }
            for rank, host in enumerate((A, B))
        ]
        told = ends(command, environs)
    assert [code for code, _, _ in told] == [0, 0], told
    assert sorted(told[0][1].splitlines()) == [f"[{A}:0] 0 3 0 2 20", f"[{A}:1] 1 3 1 2 20"]
    assert told[1][1] == f"[{B}:2] 2 3 0 1 20\n"


def test_a_job_below_mpirun_grows_and_shrinks_on_its_hosts(
    mpirun_on_two_hosts: list[str], home: Path
) -> None:
    flags = ["-w", "-np", "2", "-max-np", "4"]
    kungfu_run = [*KUNGFU_RUN, *flags, *resized(4, 2)]
    command = [*mpirun_on_two_hosts, "-x", "NO_COLOR", "--map-by", "ppr:1:node", *kungfu_run]
    ((code, out, error),) = ends(command, [{"NO_COLOR": "1"}])
    assert code == 0, out + error
    of_four = {f"[{A}:0] 0 4 0 2", f"[{A}:1] 1 4 1 2", f"[{B}:2] 2 4 0 2", f"[{B}:3] 3 4 1 2"}
    assert {*out.splitlines()} == {*of_four, f"[{A}:0] 0 2 0 2", f"[{A}:1] 1 2 1 2"}
