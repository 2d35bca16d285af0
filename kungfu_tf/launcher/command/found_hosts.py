"""kungfu-run below another launcher, one on each host: together they are the runners of one job."""

import dataclasses
import hashlib
import hmac
from collections.abc import Mapping

from kungfu_tf import errors
from kungfu_tf.environments import detection
from kungfu_tf.environments.placement import split_address
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.native import foreign_job


def add(options: Options, environ: Mapping[str, str]) -> tuple[Options, Mapping[str, str]]:
    """The options with the hosts on which another launcher has started kungfu-run.

    They stay as they are if they name hosts, or if there is no such launcher. -np and -max-np count
    the peers of all hosts.

    Args:
        options: The options of the command line.
        environ: The environment.

    Returns:
        The options, and the environment of the peers, with the secret of the job.

    Raises:
        LaunchError: If the runners cannot meet, or two of them are on one host.
        SystemExit: With code 0, if this process of the launcher has nothing to do.
    """
    if options.hosts or options.hostfile or options.peers:
        return options, environ
    try:
        foreign_job.end_if_idle(environ)
        place = detection.detect(environ)
        if place is None:
            return options, environ
        meeting, secret = foreign_job.meet(place, options.runner_port, environ)
    except errors.KungfuError as error:
        raise LaunchError(str(error)) from error
    hosts = [split_address(peer)[0] for peer in meeting.peers]
    if len(set(hosts)) < len(hosts):
        message = (
            f"{place.told(environ)} has started {len(hosts)} kungfu-run on {len(set(hosts))} "
            "hosts: start one on each (srun --ntasks-per-node=1), or the program without kungfu-run"
        )
        raise LaunchError(errors.linked("environment-runners", message))
    slots = -(-(options.max_np or options.np or 1) // len(hosts))
    named = ",".join(f"[{host}]:{slots}" if ":" in host else f"{host}:{slots}" for host in hosts)
    here = None if options.nic else hosts[place.rank]
    mine = dict(environ)
    mine.pop("KUNGFU_SECRET_FILE", None)
    of_run = hmac.new(secret.encode(), meeting.run.encode(), hashlib.sha256)
    mine["KUNGFU_SECRET"] = of_run.hexdigest()
    found = dataclasses.replace(options, hosts=named, self_address=options.self_address or here)
    return found, mine
