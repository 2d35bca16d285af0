"""`kungfu-run`: the command."""

import contextlib
import dataclasses
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kungfu_tf import _environment
from kungfu_tf.launcher.channels import credentials
from kungfu_tf.launcher.channels.signals import SignalPipe
from kungfu_tf.launcher.command import resizing
from kungfu_tf.launcher.command.job_loop import JobLoop
from kungfu_tf.launcher.document import first_document
from kungfu_tf.launcher.options import command_line, flags, given_secrets
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.given_secrets import Given
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.options.plural import counted
from kungfu_tf.launcher.output.job_output import Output
from kungfu_tf.launcher.output.summary import Outcome
from kungfu_tf.launcher.placing import cluster as clusters
from kungfu_tf.launcher.placing import core_shares, gpu_placement
from kungfu_tf.launcher.placing.cluster import Cluster
from kungfu_tf.launcher.processes import peer_environment, run_directory
from kungfu_tf.launcher.processes.guard import Guard


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a job to its end.

    Args:
        arguments: the command line without the launcher's name; by default that of the process.

    Returns:
        The exit code, as `kungfu-run --help` explains it.
    """
    _open_standard_descriptors()
    try:
        options = command_line.parse(sys.argv[1:] if arguments is None else arguments)
        if options.resize is not None:
            print(resizing.run(options, os.environ))
            return 0
        return run(options, os.environ).code
    except command_line.HelpRequested:
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
    output: Output | None = None
    workers: Sequence[str] | None = None
    restarts = recoveries = progress = 0
    began = time.monotonic()
    peer_environment.check(options, environ)
    given = given_secrets.read(environ)
    try:
        with SignalPipe() as signals:
            if options.init_version < 0:
                output = _output(options, {}, None)
                token = given_secrets.needed(given.config_token)
                workers = first_document.wait(options, token, signals, output.say)
                options = dataclasses.replace(options, np=len(workers))
            while True:
                cluster = clusters.plan(options, workers)
                with contextlib.closing(cluster.reservation):
                    prefixes = {peer.rank: cluster.prefix(peer) for peer in cluster.local_peers}
                    output = _output(options, prefixes, output)
                    if not cluster.local_peers and not options.watch:
                        output.say(f"no peer of this job belongs on {cluster.here}: nothing to do")
                        return End(0, [])
                    job = _prepare(options, given, cluster, environ, output, restarts)
                    job = dataclasses.replace(
                        job,
                        inherited=inherited,
                        recoveries=recoveries,
                        progress=progress,
                        began=began,
                    )
                    with Guard(job.directory) as guard:
                        job.directory.create()
                        job.describe()
                        loop = JobLoop(job, output, guard, signals, environ)
                        end = End(loop.run(), loop.outcomes)
                        if not loop.recovering:  # of a failure nobody could make a checkpoint
                            progress = job.directory.progress or progress
                if loop.again is None:
                    return end
                recoveries += loop.recovering
                restarts += 1
                options = dataclasses.replace(options, np=loop.again)
                most = counted(options.restarts, "time")
                after = f", {recoveries} of at most {most} after a failure"
                output.say(
                    f"starting all anew, {counted(loop.again, 'peer')}"
                    f"{after if loop.recovering else ''}",
                    always=True,
                )
    finally:
        if output is not None:
            output.finish()


def _output(options: Options, prefixes: dict[int, str], before: Output | None) -> Output:
    """`before`: that of the peers that were started earlier."""
    if before is None:
        return Output(prefixes, quiet=options.quiet, logfile=options.logfile, logdir=options.logdir)
    for rank, prefix in prefixes.items():
        before.add(rank, prefix)
    return before


def _prepare(
    options: Options,
    given: Given,
    cluster: Cluster,
    environ: Mapping[str, str],
    output: Output,
    restarts: int,
) -> peer_environment.Job:
    """What the peers of this host have in common, but for descriptors."""
    if cluster.several_hosts:
        # What is left of the peers of before must not pass for one of these.
        description = f"{cluster.description} {restarts}"
        identity = credentials.several_hosts(given.secret, description, insecure=options.insecure)
    else:
        identity = credentials.one_host()
    gpus = gpu_placement.place(cluster.local_peers, gpu_placement.visible_gpus(environ))
    for warning in (identity.warning, gpus.warning, *_environment.unknown(environ)):
        if warning is not None and not restarts:
            output.say(f"warning: {warning}")
    number = len(cluster.local_peers)
    binding = core_shares.bound(number, environ, may_change=options.watch)
    if number > 1 and not restarts:
        output.say(core_shares.describe(core_shares.shared_by(number, environ), binding))
    directory = run_directory.choose()
    return peer_environment.Job(
        cluster,
        identity,
        directory,
        gpus,
        options,
        config_token=given.config_token,
        cores=binding.cores,
        restarts=restarts,
    )


def _open_standard_descriptors() -> None:
    """Where the caller has closed one, so that no file of ours takes its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
