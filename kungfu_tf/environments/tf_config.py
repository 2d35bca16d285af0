"""TF_CONFIG, as tf.distribute, TFJob and Vertex AI set it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from kungfu_tf import errors
from kungfu_tf.environments.placement import Placement, split_address

_TRAINING = ("chief", "master", "worker")


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a chief, a master or a worker, in this order; None for an evaluator."""
    try:
        config = json.loads(environ.get("TF_CONFIG") or "{}")
        cluster, task = config.get("cluster", {}), config.get("task", {})
        tasks = {
            (kind, index): address
            for kind in _TRAINING
            for index, address in _indexed(cluster.get(kind, ()))
        }
        me = (task.get("type"), int(task.get("index", 0)))
        addresses = [split_address(address) for address in tasks.values()]
    except (ValueError, TypeError, AttributeError):  # something else uses the variable
        return None
    if me[0] == "ps" and tasks:
        message = (
            "TF_CONFIG makes this process a parameter server, and kungfu_tf trains without any: "
            "leave out the tasks 'ps', or set KUNGFU_ENVIRONMENT=none"
        )
        raise errors.FailedPreconditionError(errors.linked("environments-differ", message))
    if me not in tasks:
        return None
    rank = list(tasks).index(me)
    return Placement(
        "TF_CONFIG",
        ("TF_CONFIG",),
        rank,
        len(tasks),
        json.dumps(cluster, sort_keys=True),
        *addresses[0],
        own_port=addresses[rank][1],
        shares_home=False,
    )


def _indexed(tasks: Sequence[str] | Mapping[str, str]) -> list[tuple[int, str]]:
    """The index and the address of each task. A mapping may leave indices out."""
    if isinstance(tasks, Mapping):
        return sorted((int(index), address) for index, address in tasks.items())
    return list(enumerate(tasks))
