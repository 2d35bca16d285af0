"""The environment that each peer starts with."""

import dataclasses
import os
import time
from collections.abc import Mapping
from pathlib import Path

from kungfu_tf import config, errors
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing import core_shares, gpu_placement
from kungfu_tf.launcher.placing.cluster import Cluster, Peer
from kungfu_tf.launcher.processes.job import Job
from kungfu_tf.native import environment

# The folder of a sitecustomize.py, which Python runs first.
_START_HOOK = str(Path(__file__).resolve().parents[2] / "compat" / "start")
_VERIFIED_STEPS = "3"
_LATER = "DYNAMIC"  # in HOROVOD_TIMELINE: the program starts it
_LOG_INFO, _LOG_WARNING, _LOG_ERROR = "1", "2", "3"


def of_newcomer(peer: Peer, version: int, job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """`of_peer` for a newcomer, which joins the membership of this version."""
    gpus = gpu_placement.place((peer,), gpu_placement.visible_gpus(environ))
    result = of_peer(peer, dataclasses.replace(job, placement=gpus), environ)
    newcomer = {
        "KUNGFU_PEERS": str(peer),
        "KUNGFU_MEMBERSHIP_VERSION": str(version),
        "KUNGFU_MEMBERSHIP": "joining",
    }
    return result | newcomer


def of_peer(peer: Peer, job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """The launcher's environment, with the variables that make a process a peer.

    The launcher always sets the identity of a peer. Other variables stay as the user has set them,
    unless a flag sets them.
    """
    options = job.options
    result = dict(environ)
    # The secret is in KUNGFU_SECRET, and a file could differ.
    result.pop("KUNGFU_SECRET_FILE", None)
    result.update(
        KUNGFU_SELF=str(peer),
        KUNGFU_PEERS=job.cluster.peer_list,
        KUNGFU_MEMBERSHIP_VERSION="0",
        KUNGFU_MEMBERSHIP="elastic" if options.watch else "static",
        KUNGFU_SURVIVE="1" if options.survives else "0",
        KUNGFU_JOB_ID=job.credentials.job_id,
        KUNGFU_SECRET=job.credentials.secret,
        KUNGFU_SOCKET_DIR=job.directory.path,
        KUNGFU_CONTROL=job.directory.control,
        KUNGFU_STRATEGY=options.strategy or environ.get("KUNGFU_STRATEGY") or "AUTO",
        KUNGFU_OWN_CORES="1" if job.binding.is_own else "0",
    )
    local = [other for other in job.cluster.peers if other.address == peer.address]
    result.update(told_to_others(peer.rank, len(job.cluster.peers), peer.local_rank, len(local)))
    result[config.RUNNER.name] = job.directory.runner
    result[config.RESTARTS.name] = str(job.restarts)
    result[config.PROGRESS.name] = str(job.progress)
    result[config.EPOCHS.name] = str(job.epochs)
    result[config.RELOADS.name] = "1" if options.elastic_mode == "reload" else "0"
    has_server = options.config_server is not None or options.builtin_config_port is not None
    result[config.HAS_CONFIG_SERVER.name] = str(int(has_server))
    result[config.ROWS.name] = ""  # those of a process of Ray or Spark are not theirs
    result[config.INSECURE.name] = str(int(job.credentials.insecure))
    result[config.JOB_START.name] = f"{options.job_start:f}"
    result[config.PROC_START.name] = f"{time.time():f}"
    result.setdefault("KUNGFU_LOG_LEVEL", _log_level(options))
    result.setdefault("PYTHONUNBUFFERED", "1")
    result.update(core_shares.shared_by(len(job.cluster.local_peers), environ))
    if options.verify:
        result.setdefault(config.VERIFY.name, _VERIFIED_STEPS)
    if options.compat:
        result[config.COMPAT.name] = ",".join(options.compat)
        paths = [_START_HOOK, environ.get("PYTHONPATH")]
        result["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    if options.timeline:
        result["KUNGFU_TIMELINE"] = os.path.abspath(options.timeline)
    if "horovod" in options.compat:
        result.update(_of_horovod(peer, job.cluster))
        if environ.get("HOROVOD_TIMELINE", _LATER) != _LATER:
            result.setdefault("KUNGFU_TIMELINE", os.path.abspath(environ["HOROVOD_TIMELINE"]))
    if options.allow_nvlink:
        result.setdefault("NCCL_P2P_LEVEL", "NVL")
    if peer.rank in job.placement.devices:
        result["CUDA_VISIBLE_DEVICES"] = job.placement.devices[peer.rank]
    return result


def told_to_others(rank: int, size: int, local_rank: int, local_size: int) -> dict[str, str]:
    """What other tools look for, under the names of torchrun."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
    }


def _of_horovod(peer: Peer, cluster: Cluster) -> dict[str, str]:
    """What horovodrun tells a process at its start. In a job that changes, the program asks."""
    hosts = list(dict.fromkeys(each.address for each in cluster.peers))
    neighbours = [each for each in cluster.peers if each.address == peer.address]
    return {
        "HOROVOD_RANK": str(peer.rank),
        "HOROVOD_SIZE": str(len(cluster.peers)),
        "HOROVOD_LOCAL_RANK": str(peer.local_rank),
        "HOROVOD_LOCAL_SIZE": str(len(neighbours)),
        "HOROVOD_CROSS_RANK": str(hosts.index(peer.address) if peer.address in hosts else 0),
        "HOROVOD_CROSS_SIZE": str(len(hosts)),
        "HOROVOD_HOSTNAME": str(peer.address),
    }


def check(options: Options, environ: Mapping[str, str]) -> None:
    """Checks the user's settings before any peer starts.

    Raises:
        LaunchError: If a setting cannot be understood, or the core is missing.
    """
    overridden = "KUNGFU_STRATEGY" if options.strategy else None
    try:
        for setting in environment.settings():
            is_ours = setting.internal or setting.name == overridden
            if environ.get(setting.name) and not is_ours:
                setting.get(environ=environ)
    except errors.KungfuError as error:
        raise LaunchError(str(error)) from error


def _log_level(options: Options) -> str:
    if options.quiet:
        return _LOG_ERROR
    return _LOG_INFO if options.verbose else _LOG_WARNING
