"""TF_CONFIG, as tf.distribute, TFJob and Vertex AI set it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kungfu_tf.environments.placement import Placement, split_address

_TRAINING = ("chief", "master", "worker")
_UNREADABLE = (ValueError, TypeError, AttributeError)


class _Told(NamedTuple):
    """What the variable says.

    Attributes:
        me: The kind and the index of this task.
        training: The addresses of those that train, by kind and index, in the order of their ranks.
        job: A text that only these tasks share.
    """

    me: tuple[str, int]
    training: dict[tuple[str, int], tuple[str, int]]
    job: str


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a chief, a master or a worker, in this order; None for other tasks."""
    told = _told(environ)
    if told is None or told.me not in told.training:
        return None
    rank = list(told.training).index(told.me)
    addresses = list(told.training.values())
    return Placement(
        "TF_CONFIG",
        ("TF_CONFIG",),
        rank,
        len(addresses),
        told.job,
        *addresses[0],
        own_port=addresses[rank][1],
        shares_home=False,
    )


def parameter_server(environ: Mapping[str, str]) -> int | None:
    """The index of a parameter server among those of its job; None for other tasks."""
    told = _told(environ)
    return told.me[1] if told and told.me[0] == "ps" and told.training else None


def mistake(environ: Mapping[str, str]) -> str | None:
    """What is wrong with the variable of a task that shall train; None if nothing is."""
    try:
        me, training, _ = _read(environ)
    except _UNREADABLE as error:
        return f"its TF_CONFIG cannot be read: {error}"
    kind, index = me
    if not training or me in training or kind not in (None, *_TRAINING):
        return None
    if kind is None:
        return "its TF_CONFIG has a cluster, and no task"
    return f"its TF_CONFIG makes it {kind} {index}, which is not in its cluster"


def _told(environ: Mapping[str, str]) -> _Told | None:
    try:
        return _read(environ)
    except _UNREADABLE:  # something else may use the variable
        return None


def _read(environ: Mapping[str, str]) -> _Told:
    config = json.loads(environ.get("TF_CONFIG") or "{}")
    cluster, task = config.get("cluster", {}), config.get("task", {})
    training = {
        (kind, index): split_address(address)
        for kind in _TRAINING
        for index, address in _indexed(cluster.get(kind, ()))
    }
    me = (task.get("type"), int(task.get("index", 0)))
    return _Told(me, training, json.dumps(cluster, sort_keys=True))


def _indexed(tasks: Sequence[str] | Mapping[str, str]) -> list[tuple[int, str]]:
    """The index and the address of each task. A mapping may leave indices out."""
    if isinstance(tasks, Mapping):
        return sorted((int(index), address) for index, address in tasks.items())
    return list(enumerate(tasks))
