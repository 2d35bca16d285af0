"""The environment that each peer starts with."""

import dataclasses
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kungfu_tf import _environment, config, errors
from kungfu_tf.launcher import placement, threads
from kungfu_tf.launcher.cluster import Cluster, Peer
from kungfu_tf.launcher.credentials import Credentials
from kungfu_tf.launcher.errors import LaunchError
from kungfu_tf.launcher.flags import Options
from kungfu_tf.launcher.given_secrets import Secret
from kungfu_tf.launcher.placement import Placement
from kungfu_tf.launcher.rundir import RunDirectory

# Where Python finds a sitecustomize.py, which runs first.
_START_HOOK = str(Path(__file__).resolve().parents[1] / "compat" / "start")
_LOG_INFO, _LOG_WARNING, _LOG_ERROR = "1", "2", "3"


@dataclasses.dataclass(frozen=True)
class Job:
    """What all peers of this host have in common.

    `config_token`: what the user has given to ask a config server with. `cores`: those that each
    stays on, by local rank; empty: on none. `inherited` are descriptors that each gets. `restarts`:
    how often the job was started anew, `recoveries` of which after a failure; `progress`: how far
    it was then; `began`: when it was first started.
    """

    cluster: Cluster
    credentials: Credentials
    directory: RunDirectory
    placement: Placement
    options: Options
    config_token: Secret | None = None
    cores: Sequence[frozenset[int]] = ()
    inherited: Sequence[int] = ()
    restarts: int = 0
    recoveries: int = 0
    progress: int = 0
    began: float = dataclasses.field(default_factory=time.monotonic)

    def describe(self) -> None:
        """Writes down for others of this user who runs there what."""
        content = {"pid": os.getpid(), "command": self.options.command}
        Path(self.directory.job).write_text(json.dumps(content))


def of_newcomer(peer: Peer, version: int, job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """As `of_peer`, for one that joins a job of which this is the membership's version."""
    gpus = placement.place((peer,), placement.visible_gpus(environ))
    result = of_peer(peer, dataclasses.replace(job, placement=gpus), environ)
    newcomer = {
        "KUNGFU_PEERS": str(peer),
        "KUNGFU_EPOCH": str(version),
        "KUNGFU_MEMBERSHIP": "joining",
    }
    return result | newcomer


def of_peer(peer: Peer, job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """The launcher's environment and what makes this process a peer.

    Identity is always the launcher's. What only tunes is left as the user has set it; a flag that
    he gave goes before his environment.
    """
    options = job.options
    result = dict(environ)
    # The secret is in KUNGFU_SECRET; two sources could differ.
    result.pop("KUNGFU_SECRET_FILE", None)
    result.update(
        KUNGFU_SELF=str(peer),
        KUNGFU_PEERS=job.cluster.peer_list,
        KUNGFU_EPOCH="0",
        KUNGFU_MEMBERSHIP="elastic" if options.watch else "static",
        KUNGFU_JOB_ID=job.credentials.job_id,
        KUNGFU_SECRET=job.credentials.secret,
        KUNGFU_SOCKET_DIR=job.directory.path,
        KUNGFU_CONTROL=job.directory.control,
        KUNGFU_STRATEGY=options.strategy or environ.get("KUNGFU_STRATEGY") or "AUTO",
        KUNGFU_OWN_CORES="1" if job.cores else "0",
    )
    result[config.RUNNER.name] = job.directory.runner
    result[config.RESTARTS.name] = str(job.restarts)
    result[config.PROGRESS.name] = str(job.progress)
    result[config.RELOADS.name] = "1" if options.elastic_mode == "reload" else "0"
    result.setdefault("KUNGFU_LOG_LEVEL", _log_level(options))
    result.setdefault("PYTHONUNBUFFERED", "1")
    result.update(threads.shared_by(len(job.cluster.local_peers), environ))
    if options.compat:
        result[config.COMPAT.name] = ",".join(options.compat)
        paths = [_START_HOOK, environ.get("PYTHONPATH")]
        result["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    if options.allow_nvlink:
        result.setdefault("NCCL_P2P_LEVEL", "NVL")
    if peer.rank in job.placement.devices:
        result["CUDA_VISIBLE_DEVICES"] = job.placement.devices[peer.rank]
    return result


def check(options: Options, environ: Mapping[str, str]) -> None:
    """Reads what the user has set, which peers would do only when they have loaded their program.

    Raises:
        LaunchError: a variable of ours cannot be understood, or the core is missing.
    """
    overridden = "KUNGFU_STRATEGY" if options.strategy else None
    try:
        for setting in _environment.settings():
            is_ours = setting.internal or setting.name == overridden
            if environ.get(setting.name) and not is_ours:
                setting.get(environ=environ)
    except errors.KungfuError as error:
        raise LaunchError(str(error)) from error


def _log_level(options: Options) -> str:
    if options.quiet:
        return _LOG_ERROR
    return _LOG_INFO if options.verbose else _LOG_WARNING
