"""`kungfu-run`: the command."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kungfu_tf.launcher import cluster as clusters
from kungfu_tf.launcher import credentials, environment, flags, placement, rundir, threads
from kungfu_tf.launcher.cluster import Cluster, Peer
from kungfu_tf.launcher.errors import LaunchError
from kungfu_tf.launcher.flags import Options
from kungfu_tf.launcher.guard import Guard
from kungfu_tf.launcher.job import JobLoop
from kungfu_tf.launcher.output import Output
from kungfu_tf.launcher.signals import SignalPipe
from kungfu_tf.launcher.summary import Outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a job to its end.

    Args:
        arguments: the command line without the launcher's name; by default that of the process.

    Returns:
        The exit code, as `kungfu-run --help` explains it.
    """
    _open_standard_descriptors()
    try:
        options = flags.parse(sys.argv[1:] if arguments is None else arguments)
        return run(options, os.environ).code
    except flags.HelpRequested:
        print(flags.help_text(), end="")
        return 0
    except LaunchError as error:
        print(f"kungfu-run: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


class End(NamedTuple):
    """How a job ended: the exit code that stands for it, and each of this host's peers."""

    code: int
    outcomes: Sequence[Outcome]


def run(options: Options, environ: Mapping[str, str], *, inherited: Sequence[int] = ()) -> End:
    """Runs the job that a command line asks for. For the main thread only.

    Args:
        options: What the command line says.
        environ: The environment of which each peer gets a version of its own.
        inherited: Descriptors that each peer gets.

    Raises:
        LaunchError: It cannot be started; what was started has ended.
    """
    cluster = clusters.plan(options)
    output = Output(
        {peer.rank: _prefix(cluster, peer) for peer in cluster.local_peers},
        quiet=options.quiet,
        logfile=options.logfile,
        logdir=options.logdir,
    )
    if not cluster.local_peers:
        output.say(f"no peer of this job belongs on {cluster.here}: nothing to do")
        return End(0, [])
    if cluster.several_hosts:
        identity = credentials.several_hosts(environ, cluster.peer_list, insecure=options.insecure)
    else:
        identity = credentials.one_host()
    gpus = placement.place(cluster.local_peers, placement.visible_gpus(environ))
    for warning in (identity.warning, gpus.warning):
        if warning is not None:
            output.say(f"warning: {warning}")
    shares = threads.shared_by(len(cluster.local_peers), environ)
    if options.verbose and shares:
        output.say(threads.describe(shares))
    directory = rundir.choose()
    job = environment.Job(cluster, identity, directory, gpus, options, inherited)
    try:
        with SignalPipe() as signals, Guard(directory) as guard:
            directory.create()
            loop = JobLoop(job, output, guard, signals, environ)
            return End(loop.run(), loop.outcomes)
    finally:
        output.finish()
        cluster.reservation.close()


def _prefix(cluster: Cluster, peer: Peer) -> str:
    return f"[{peer.address}:{peer.rank}] " if cluster.several_hosts else f"[{peer.rank}] "


def _open_standard_descriptors() -> None:
    """Where the caller has closed one, so that no file of ours takes its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
