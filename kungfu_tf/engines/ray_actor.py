"""The actor in which a peer runs. Ray's log shows its name."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import ray

from kungfu_tf.engines.orders import Order
from kungfu_tf.engines.peer_control import PeerControl, Said
from kungfu_tf.engines.worker import Worker
from kungfu_tf.function_launch.results import Child


class Place(NamedTuple):
    """Where an actor runs: the address of its peer, its process, and the id of its node."""

    address: str
    pid: int
    node: str


class Peer:
    """A worker. `run` and the other methods may run at the same time."""

    def __init__(self) -> None:
        self._worker = Worker(ray.util.get_node_ip_address())
        self._control = PeerControl()

    def place(self) -> Place:
        node = ray.get_runtime_context().get_node_id()
        return Place(self._worker.address, os.getpid(), node)

    def run(self, order: Order, shard: Any) -> Child:
        """`Worker.run`, in which `ray.init()` finds this cluster.

        Args:
            order: The job.
            shard: The data of the peer, a dataset of Ray, or None.
        """
        own = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
        if shard is None:
            control = self._control if order.is_elastic else None
            return self._worker.run(order, own, control=control)
        from kungfu_tf.engines import ray_rows, row_file

        with row_file.written(ray_rows.batches_of(shard)) as rows:
            return self._worker.run(order, own, rows)

    def stop(self) -> None:
        """`Worker.stop`."""
        self._worker.stop()

    def give_notice(self) -> None:
        """`Worker.give_notice`."""
        self._worker.give_notice()

    def tell(self, place: int, name: str, *arguments: Any) -> None:
        """`PeerControl.tell`."""
        self._control.tell(place, name, *arguments)

    def said(self, timeout: float) -> list[Said]:
        """`PeerControl.said`."""
        return self._control.said(timeout)
