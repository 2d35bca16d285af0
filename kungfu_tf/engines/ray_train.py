"""Ray Train: its workers become the peers of a job before the program's function runs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import ray
from ray.train.backend import Backend, BackendConfig

from kungfu_tf import peer
from kungfu_tf.engines.worker import Worker
from kungfu_tf.native import foreign_job

_workers: list[Worker] = []  # the one of this process holds a port until it ends


class Config(BackendConfig):
    """What a trainer of Ray is given."""

    @property
    def backend_cls(self) -> type[Backend]:
        return _Peers


class _Peers(Backend):
    """Begins and ends the job of a group of workers. Ray makes a new group after a failure."""

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        peers = worker_group.execute(_place)
        job, secret = secrets.token_hex(16), secrets.token_hex(32)
        ray.get(
            [
                worker_group.execute_single_async(rank, _enter, job, secret, peers, rank)
                for rank in range(len(peers))
            ]
        )

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        worker_group.execute(peer.shutdown)


def _place() -> str:
    _workers.append(Worker(ray.util.get_node_ip_address()))
    return _workers[-1].address


def _enter(job: str, secret: str, peers: Sequence[str], rank: int) -> None:
    foreign_job.become_peer(job, secret, peers, rank)
