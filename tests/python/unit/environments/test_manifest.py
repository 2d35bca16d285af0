"""The jobs of docker/kubernetes; `make lint` compares them with the schemas of Kubernetes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kungfu_tf.environments import detection
from kungfu_tf.environments.placement import Placement

MANIFESTS = Path(__file__).parents[4] / "docker" / "kubernetes"


def read(name: str) -> str:
    return (MANIFESTS / f"{name}.yaml").read_text()


def variables(text: str) -> dict[str, str]:
    return dict(re.findall(r'- name: (KUNGFU_\w+)\n +value: "?([^" \n]+)', text))


def places(environ: dict[str, str]) -> list[Placement]:
    found = [
        detection.detect({**environ, "JOB_COMPLETION_INDEX": str(index)})
        for index in range(int(environ["KUNGFU_SIZE"]))
    ]
    return [place for place in found if place is not None]


def names(text: str) -> list[str]:
    """Those of the objects."""
    return re.findall(r"^  name: (\S+)", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["indexed-job", "jobset", "training-runtime"])
def test_its_pods_are_the_peers_of_one_job(name: str) -> None:
    text = read(name)
    found = places(variables(text))
    assert [place.rank for place in found] == [0, 1, 2, 3]
    assert len({place.job_id for place in found}) == 1
    assert "secretKeyRef: { name: kungfu, key: secret }" in text
    assert "completionMode: Indexed" in text


@pytest.mark.parametrize("name", ["indexed-job", "jobset"])
def test_all_peers_run_at_once(name: str) -> None:
    text = read(name)
    numbers = re.findall(r"(?:completions|parallelism): (\d+)", text)
    assert numbers == 2 * [variables(text)["KUNGFU_SIZE"]]


def test_the_leader_of_an_indexed_job() -> None:
    service, job = read("indexed-job").split("---\n")
    (name,) = names(job)
    (subdomain,) = re.findall(r"subdomain: (\S+)", job)
    assert variables(job)["KUNGFU_LEADER"] == f"{name}-0.{subdomain}"
    assert f"\n  name: {subdomain}\n" in service
    assert f"batch.kubernetes.io/job-name: {name}\n" in service


def test_the_leader_of_a_job_set() -> None:
    """JobSet calls pods <set>-<replicated job>-<job>-<pod>.<subdomain>, by default of its name."""
    text = read("jobset")
    (name,) = names(text)
    assert "    - name: peers\n      replicas: 1\n" in text and "subdomain" not in text
    assert variables(text)["KUNGFU_LEADER"] == f"{name}-peers-0-0.{name}"


def test_the_leader_of_a_train_job() -> None:
    """Trainer makes a JobSet of its name. The runtime learns that from a label."""
    runtime, job = read("training-runtime").split("---\n")
    assert "- name: node" in runtime
    assert variables(runtime)["KUNGFU_LEADER"] == "$(TRAIN_JOB)-node-0-0.$(TRAIN_JOB)"
    before, _ = runtime.split("KUNGFU_LEADER")  # a variable knows those before it
    assert "name: TRAIN_JOB" in before and "jobset.sigs.k8s.io/jobset-name" in before
    assert f"runtimeRef:\n    name: {names(runtime)[0]}\n" in job
    assert re.findall(r"numNodes: (\d+)", job) == [variables(job)["KUNGFU_SIZE"]]
