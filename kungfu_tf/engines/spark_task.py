"""The tasks of Spark in which peers run."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence

from pyspark import BarrierTaskContext, TaskContext

from kungfu_tf.engines import failures, spark_failure
from kungfu_tf.engines.orders import Order, by_host, host_of
from kungfu_tf.engines.worker import Worker
from kungfu_tf.environments.placement import split_address
from kungfu_tf.function_launch import results
from kungfu_tf.function_launch.results import Child

_ANY_PORT = 9  # nothing is sent there


def of_trials(orders: Sequence[Order]) -> Callable[[int], Child]:
    """The tasks of trials, one for each number of an order."""

    def task(number: int) -> Child:
        worker = Worker("127.0.0.1")
        try:
            order = orders[number]._replace(peers=(worker.address,))
            return worker.run(order, _gpus(TaskContext.get()))
        finally:
            worker.close()

    return task


def of(order: Order) -> Callable[[Iterator[int]], Iterator[Child]]:
    """The tasks of a barrier stage, for `mapPartitions`."""

    def task(partition: Iterator[int]) -> Iterator[Child]:
        yield ended(order, None)

    return task


def ended(order: Order, rows: int | None) -> Child:
    """How the peer of this task of a barrier stage ended.

    Args:
        order: The job.
        rows: The descriptor of the peer's rows.

    Raises:
        Exception: If it failed.
    """
    context = BarrierTaskContext.get()
    hosts = [split_address(info.address)[0] for info in context.getTaskInfos()]
    worker = Worker(_own_address(hosts, context.partitionId()))
    try:
        addresses = context.allGather(worker.address)
        peers = tuple(addresses[index] for index in by_host([*map(host_of, addresses)]))
        child = worker.run(order._replace(peers=peers), _gpus(context), rows)
    finally:
        worker.close()
    if failures.has_failed(child):
        if failures.is_consequence(child):  # Spark reports the first failure
            time.sleep(order.grace)
        raise spark_failure.packed(results.failed(child))
    return child


def _own_address(hosts: Sequence[str], mine: int) -> str:
    """The address of this host on the way to another one of the job.

    Its name may resolve to an address that only this host knows.
    """
    other = next((host for host in hosts if host != hosts[mine]), hosts[mine])
    family, kind, protocol, _, target = socket.getaddrinfo(
        other, _ANY_PORT, type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)
        name: str = probe.getsockname()[0]
        return name


def _gpus(context: TaskContext) -> dict[str, str]:
    gpus = context.resources().get("gpu")
    return {} if gpus is None else {"CUDA_VISIBLE_DEVICES": ",".join(gpus.addresses)}
