"""TF_CONFIG, as tf.distribute, TFJob and Vertex AI set it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kungfu_tf import errors
from kungfu_tf.environments.placement import Placement, split_address

_TRAINING = ("chief", "master", "worker")


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a chief, a master or a worker, in this order; None for an evaluator."""
    try:
        config = json.loads(environ.get("TF_CONFIG") or "{}")
        cluster, task = config.get("cluster", {}), config.get("task", {})
        tasks = [(kind, index) for kind in _TRAINING for index in range(len(cluster.get(kind, ())))]
        me = (task.get("type"), int(task.get("index", 0)))
        addresses = [split_address(cluster[kind][index]) for kind, index in tasks]
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
    return Placement(
        "TF_CONFIG",
        ("TF_CONFIG",),
        tasks.index(me),
        len(tasks),
        json.dumps(cluster, sort_keys=True),
        *addresses[0],
        own_port=addresses[tasks.index(me)][1],
        shares_home=False,
    )
