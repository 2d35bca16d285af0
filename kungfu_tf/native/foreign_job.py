"""Makes this process a peer if another launcher than `kungfu-run` has started it."""

from __future__ import annotations

import atexit
import hashlib
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from kungfu_tf import config, errors
from kungfu_tf.environments import detection, job_secret, rendezvous
from kungfu_tf.environments.placement import Placement, split_address
from kungfu_tf.environments.rendezvous import Meeting, Patience
from kungfu_tf.links.credentials import Credentials
from kungfu_tf.native import environment, socket_directory

_lock = threading.Lock()
_is_done = False
_failure: errors.KungfuError | None = None
_held: list[socket.socket] = []  # ports, until the process ends


def join() -> None:
    """Meets the other processes of the job, once, and sets the variables of a peer.

    It does nothing in a process that is one of one, or that kungfu-run has started. One that has
    nothing to do ends with exit code 0.

    Raises:
        KungfuError: If the process cannot become a peer. Later calls raise the same error.
        SystemExit: As from `end_if_idle`.
    """
    global _is_done, _failure
    if _is_done:
        return
    with _lock:
        if _is_done:
            return
        if _failure is not None:
            raise _failure
        try:
            end_if_idle(os.environ)
            place = detection.detect(os.environ)
            if place is not None:
                _meet_the_others(place)
        except errors.KungfuError as error:
            _failure = error
            raise
        _is_done = True


def end_if_idle(environ: Mapping[str, str]) -> None:
    """Ends a process that its launcher has started, and that has nothing to do.

    Args:
        environ: Its environment.

    Raises:
        SystemExit: With code 0, after a line that says why.
    """
    reason = detection.nothing_to_do(environ)
    if reason is not None:
        print(f"kungfu_tf: {reason}, and ends", file=sys.stderr, flush=True)
        sys.exit(0)


def meet(place: Placement, port: int, environ: Mapping[str, str]) -> tuple[Meeting, str]:
    """Exchanges addresses with the other processes of the job.

    Args:
        place: The place of this process.
        port: Its port, which the others shall learn.
        environ: Its environment.

    Returns:
        The addresses, and the secret of the job.

    Raises:
        KungfuError: If the launcher tells too little, or as from `rendezvous.meet`.
    """
    if not place.meeting_place[0]:
        message = (
            f"{place.told(environ)} does not tell where rank 0 is: set {config.LEADER.name} to "
            "its host"
        )
        raise errors.FailedPreconditionError(errors.linked("environment-address", message))
    secret = job_secret.of(place, environ)
    credentials = Credentials(place.job_id, secret)
    return rendezvous.meet(place, credentials, port, patience(environ)), secret


def become_peer(job: str, secret: str, peers: Sequence[str], rank: int) -> None:
    """Sets the variables of a peer whose place is known. The process is one until it ends.

    Args:
        job: The id of the job.
        secret: Its secret.
        peers: The addresses "ip:port" of all peers, by rank.
        rank: The rank of this one.
    """
    folder = socket_directory.make(job, secret)
    atexit.register(_leave, folder, split_address(peers[rank])[1], os.getpid())
    os.environ.pop("KUNGFU_SECRET_FILE", None)
    os.environ.update(
        KUNGFU_PEERS=",".join(peers),
        KUNGFU_JOB_ID=job,
        KUNGFU_SECRET=secret,
        KUNGFU_SOCKET_DIR=str(folder),
    )
    os.environ["KUNGFU_SELF"] = peers[rank]


def patience(environ: Mapping[str, str]) -> Patience:
    """How long a process waits for the others of its job, as its environment says."""
    settings = {setting.name: setting for setting in environment.settings()}
    return Patience(
        float(settings["KUNGFU_STALL_WARNING"].get(environ=environ)),
        float(settings["KUNGFU_CONNECT_TIMEOUT"].get(environ=environ)),
    )


def _meet_the_others(place: Placement) -> None:
    port, held = rendezvous.reserve(place.own_port)
    if held is not None:
        _held.append(held)
    meeting, secret = meet(place, port, os.environ)
    os.environ.setdefault(config.RESTARTS.name, str(place.restarts))
    job = hashlib.sha256(f"{place.job_id}/{meeting.run}".encode()).hexdigest()[:32]
    become_peer(job, secret, meeting.peers, place.rank)


def _leave(folder: Path, port: int, process: int) -> None:
    if os.getpid() == process:  # not in a fork
        socket_directory.leave(folder, port)
