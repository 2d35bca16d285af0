"""Ray Train: its workers become the peers of a job before the program's function runs."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from typing import Any

import ray
from ray.train.backend import Backend, BackendConfig

from kungfu_tf import errors, peer
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
        peers = _answers(worker_group.execute_async(_place))
        job, secret = secrets.token_hex(16), secrets.token_hex(32)
        _answers(
            [
                worker_group.execute_single_async(rank, _enter, job, secret, peers, rank)
                for rank in range(len(peers))
            ]
        )

    def on_shutdown(self, worker_group: Any, backend_config: Any) -> None:
        try:
            _answers(worker_group.execute_async(peer.shutdown))
        except errors.DeadlineExceededError as error:  # Ray ends them anyway
            print(f"kungfu_tf: {error}", file=sys.stderr, flush=True)


def _answers(asked: Sequence[Any]) -> list[Any]:
    """What the workers answer, by rank.

    Raises:
        DeadlineExceededError: If one does not answer within KUNGFU_CONNECT_TIMEOUT seconds.
        RayError: If one has failed, whether or not others answer.
    """
    seconds = foreign_job.patience(os.environ).deadline
    answered, late = ray.wait(list(asked), num_returns=len(asked), timeout=seconds)
    if late:
        ray.get(answered)  # a failure of one may be why others do not answer
        ranks = ", ".join(str(rank) for rank, one in enumerate(asked) if one in late)
        raise errors.DeadlineExceededError(
            f"ray.KungfuConfig: after {seconds:g} s rank {ranks} of {len(asked)} had not answered"
        )
    answers: list[Any] = ray.get(list(asked))
    return answers


def _place() -> str:
    _workers.append(Worker(ray.util.get_node_ip_address()))
    return _workers[-1].address


def _enter(job: str, secret: str, peers: Sequence[str], rank: int) -> None:
    foreign_job.become_peer(job, secret, peers, rank)
