"""Chooses the Director that a runner reports to."""

import functools
import math
import selectors
from collections.abc import Callable

from kungfu_tf.launcher.deciding.director import Director, Host, Rules
from kungfu_tf.launcher.deciding.follower import Follower
from kungfu_tf.launcher.deciding.leader import Leader
from kungfu_tf.launcher.deciding.leader_of_others import LeaderOfOthers
from kungfu_tf.launcher.deciding.lease import Lease
from kungfu_tf.launcher.deciding.runner_link import Link
from kungfu_tf.launcher.deciding.succession import Succession
from kungfu_tf.launcher.options import given_secrets
from kungfu_tf.launcher.output.job_output import Output
from kungfu_tf.launcher.processes.job import Job


def choose(job: Job, own: Host, selector: selectors.BaseSelector, output: Output) -> Director:
    """Chooses the Director. Runners of several hosts connect only if the job may change.

    Args:
        job: The job.
        own: This host.
        selector: The selector of the event loop.
        output: The output of the job, for messages about decisions.

    Raises:
        LaunchError: If the port for the other runners is not available.
    """
    cluster, options = job.cluster, job.options
    recovers = options.auto_recover is not None
    rules = Rules(
        watch=options.watch,
        reload=options.elastic_mode == "reload",
        keep=options.keep,
        recoveries=options.restarts - job.recoveries if recovers else 0,
        early_failure=job.early_failure,
        least=(options.min_np or 1) if options.survives else None,
        outlives_errors=options.on_failure == "survive-all",
        replaced=(options.respawns or math.inf) if options.respawn else options.spares,
        spares=options.spares,
        cooldown=options.cooldown if options.respawn else (0, 0),
        changes=math.inf if options.max_changes is None else options.max_changes,
    )
    if not (cluster.several_hosts and (options.watch or recovers or options.survives)):
        return Leader(
            cluster,
            {cluster.here: own},
            rules,
            say=functools.partial(output.say, always=options.survives),
        )
    say = functools.partial(output.say, always=True)
    link = Link(job.credentials, options.runner_port, selector)
    claim = _claim(job, selector)
    if cluster.leads:
        return LeaderOfOthers(cluster, own, link, rules, claim and claim(), say=say)
    if claim is None:
        return Follower(cluster, own, link, say=say)
    return Succession(cluster, own, link, rules, claim, say=say)


def _claim(job: Job, selector: selectors.BaseSelector) -> Callable[[], Lease] | None:
    """Claims the lead of the job; None: only the first host's runner can lead."""
    url = job.options.config_server
    if url is None or not job.options.survives or job.options.watch:
        return None
    secret = given_secrets.of_store(url, job.config_token)
    return functools.partial(Lease, url, secret, job.cluster.here, selector)
