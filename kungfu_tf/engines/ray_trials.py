"""Trials on Ray, one task each."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray

from kungfu_tf import errors
from kungfu_tf.engines import failures
from kungfu_tf.engines.orders import Order
from kungfu_tf.engines.ray_options import each, options_of
from kungfu_tf.engines.worker import Worker
from kungfu_tf.function_launch.results import Child

_LOOKS = 0.5  # seconds between two looks at the cluster


def wait_for_a_node(resources: Mapping[str, float], start_timeout: float) -> None:
    """Returns when a node is large enough for a trial.

    Raises:
        ResourceExhaustedError: If there is none in time.
    """
    deadline = time.monotonic() + start_timeout
    while not any(_suffices(node, resources) for node in ray.nodes()):
        if time.monotonic() > deadline:
            message = (
                f"ray.trials: after {start_timeout:g} s no node of the cluster has "
                f"{each(resources)} for a trial"
            )
            raise errors.ResourceExhaustedError(errors.linked("engine-room", message))
        time.sleep(_LOOKS)


def run(orders: Sequence[Order], resources: Mapping[str, float], timeout: float) -> list[Child]:
    """Runs the trials to their ends, as many at once as the cluster has room for.

    Raises:
        DeadlineExceededError: If they take longer than `timeout` seconds.
    """
    remote = ray.remote(trial).options(max_retries=0, **options_of(resources))
    references = [remote.remote(order) for order in orders]
    pending = references
    try:
        limit = None if timeout == math.inf else timeout
        _, pending = ray.wait(references, num_returns=len(references), timeout=limit)
        if pending:
            raise errors.DeadlineExceededError(
                f"ray.trials: the timeout of {timeout:g} s is over, and {len(pending)} of "
                f"{len(orders)} trials had not ended"
            )
        return [_end(reference) for reference in references]
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)


def trial(order: Order) -> Child:
    """The task of a trial."""
    worker = Worker(ray.util.get_node_ip_address())
    try:
        return worker.run(order._replace(peers=(worker.address,)), {})
    finally:
        worker.close()


def _end(reference: Any) -> Child:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return failures.lost(0, "a node of Ray", 0, str(error))


def _suffices(node: Mapping[str, Any], resources: Mapping[str, float]) -> bool:
    has = node["Resources"] if node["Alive"] else {}
    return all(has.get(name, 0) >= amount for name, amount in resources.items())
