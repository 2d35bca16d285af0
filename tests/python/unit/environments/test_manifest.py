"""The Job of docker/kubernetes; `make lint` compares it with the schemas of Kubernetes."""

from __future__ import annotations

import re
from pathlib import Path

from kungfu_tf.environments import detection

MANIFEST = Path(__file__).parents[4] / "docker" / "kubernetes" / "indexed-job.yaml"


def test_its_pods_are_the_peers_of_one_job() -> None:
    service, job = MANIFEST.read_text().split("---\n")
    environ = dict(re.findall(r'- name: (KUNGFU_\w+)\n +value: "?([^" \n]+)', job))
    places = [
        detection.detect({**environ, "JOB_COMPLETION_INDEX": str(index)})
        for index in range(int(environ["KUNGFU_SIZE"]))
    ]
    assert [place.rank for place in places if place is not None] == [0, 1, 2, 3]
    assert len({place.job_id for place in places if place is not None}) == 1
    assert re.findall(r"(?:completions|parallelism): (\d+)", job) == 2 * [environ["KUNGFU_SIZE"]]
    (name,) = re.findall(r"^  name: (\S+)", job, re.MULTILINE)
    (subdomain,) = re.findall(r"subdomain: (\S+)", job)
    assert environ["KUNGFU_LEADER"] == f"{name}-0.{subdomain}"
    assert f"\n  name: {subdomain}\n" in service
    assert f"batch.kubernetes.io/job-name: {name}\n" in service
