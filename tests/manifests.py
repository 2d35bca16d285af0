"""Checks manifests of Kubernetes strictly: `make lint` calls it.

    python tests/manifests.py docker/kubernetes/*.yaml

Documents of Kubernetes' own kinds are compared with its schemas. Those of JobSet and Kubeflow
Trainer are compared with Trainer's models, and the Jobs within them with Kubernetes' schemas. A
field that is unknown is an error.

Exit code 1 if a document is wrong; it is named, with what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pydantic
import yaml
from kubeflow_trainer_api import models

MODELS = {
    "ClusterTrainingRuntime": models.TrainerV1alpha1ClusterTrainingRuntime,
    "JobSet": models.JobsetV1alpha2JobSet,
    "TrainJob": models.TrainerV1alpha1TrainJob,
}


def main() -> int:
    wrong = 0
    for path in sys.argv[1:]:
        with open(path) as file:
            for document in yaml.safe_load_all(file):
                for problem in problems(document):
                    wrong = 1
                    print(f"{path}: {document['kind']}: {problem}", file=sys.stderr)
    return wrong


def problems(document: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a document."""
    model = MODELS.get(document["kind"])
    if model is None:
        yield from _unlike_the_schema(document)
        return
    try:
        known = model.from_dict(document).to_dict()
    except pydantic.ValidationError as error:
        yield str(error)
        return
    yield from (f"{place} is unknown" for place in _left_out(document, known))
    for job in _jobs_of(document):
        yield from _unlike_the_schema(job)


def _unlike_the_schema(document: dict[str, Any]) -> Iterator[str]:
    try:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{'.'.join(map(str, error.path))}: {error.message}"


def _left_out(given: Any, known: Any, place: str = "") -> Iterator[str]:
    """The fields that a model has dropped."""
    if isinstance(given, dict):
        for key, value in given.items():
            here = f"{place}.{key}".lstrip(".")
            if key not in known:
                yield here
            else:
                yield from _left_out(value, known[key], here)
    elif isinstance(given, list):
        for index, (one, other) in enumerate(zip(given, known, strict=True)):
            yield from _left_out(one, other, f"{place}[{index}]")


def _jobs_of(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spec = document["spec"]
    job_set = spec.get("template", {}).get("spec", {}) if "template" in spec else spec
    for replicated in job_set.get("replicatedJobs", []):
        metadata = {"name": replicated["name"], **replicated["template"].get("metadata", {})}
        yield {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": replicated["template"]["spec"],
        }


if __name__ == "__main__":
    sys.exit(main())
