"""Runs a job from its first start to its end. It may be started anew meanwhile."""

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kungfu_tf.environments import detection
from kungfu_tf.launcher.channels import credentials
from kungfu_tf.launcher.channels.signals import SignalPipe
from kungfu_tf.launcher.command.job_loop import JobLoop
from kungfu_tf.launcher.document import first_document
from kungfu_tf.launcher.options import given_secrets
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.plural import plural
from kungfu_tf.launcher.output.job_output import Output
from kungfu_tf.launcher.output.outcome import Outcome
from kungfu_tf.launcher.placing import cluster as clusters
from kungfu_tf.launcher.placing import core_shares, gpu_placement
from kungfu_tf.launcher.placing.cluster import Cluster
from kungfu_tf.launcher.processes import peer_environment, run_directory
from kungfu_tf.launcher.processes.guard import Guard
from kungfu_tf.launcher.processes.job import Job
from kungfu_tf.native import environment as core_environment


class End(NamedTuple):
    """The end of a job: its exit code, and how each peer of this host ended."""

    code: int
    outcomes: Sequence[Outcome]


def run(options: Options, environ: Mapping[str, str], *, inherited: Sequence[int] = ()) -> End:
    """Runs the job that a command line asks for. For the main thread only.

    Args:
        options: The options of the command line.
        environ: The environment. Each peer gets a version of its own.
        inherited: Descriptors that each peer inherits.

    Raises:
        LaunchError: If it cannot be started. Peers that were started have ended.
    """
    peer_environment.check(options, environ)
    return _JobRun(options, environ, inherited).run()


class _JobRun:
    """Counts how often the job was started anew, and how often of these after a failure."""

    def __init__(
        self, options: Options, environ: Mapping[str, str], inherited: Sequence[int]
    ) -> None:
        self._options = options
        self._environ = environ
        self._inherited = inherited
        self._given = given_secrets.read(environ, options.config_server)
        self._output: Output | None = None
        self._workers: Sequence[str] | None = None  # the document to begin with, if there is one
        self._restarts = self._recoveries = self._progress = self._epochs = 0
        self._early_failure: int | None = None  # the exit code of the last one
        self._began = time.monotonic()

    def run(self) -> End:
        try:
            with SignalPipe() as signals:
                if self._options.init_version < 0:
                    self._wait_for_document(signals)
                while True:
                    end, again = self._run_once(signals)
                    if again is None:
                        return end
                    self._options = dataclasses.replace(self._options, np=again)
        finally:
            if self._output is not None:
                self._output.finish()

    def _wait_for_document(self, signals: SignalPipe) -> None:
        say = self._output_of({}).say
        assert self._options.config_server is not None, "as command_line.py checks"
        secret = given_secrets.of_store(self._options.config_server, self._given.config_token)
        self._workers = first_document.wait(self._options, secret, signals, say)
        self._options = dataclasses.replace(self._options, np=len(self._workers))

    def _run_once(self, signals: SignalPipe) -> tuple[End, int | None]:
        """Returns the end, and the number of peers to start the job anew with; None: it is over."""
        cluster = clusters.plan(self._options, self._workers)
        with contextlib.closing(cluster.reservation):
            output = self._output_of({p.rank: cluster.prefix(p) for p in cluster.local_peers})
            if not cluster.local_peers and not self._options.watch:
                output.say(f"no peer of this job belongs on {cluster.here}: nothing to do")
                return End(0, []), None
            job = self._prepare(cluster, output)
            with Guard(job.directory) as guard:
                job.directory.create()
                job.describe()
                loop = JobLoop(job, output, guard, signals, self._environ)
                end = End(loop.run(), loop.outcomes)
                if not loop.recovering:  # no peer could make a checkpoint of a failure
                    self._progress = job.directory.progress or self._progress
                self._early_failure = loop.early_failure
                self._epochs += job.directory.epochs(len(cluster.local_peers))
        if loop.again is not None:
            self._count_restart(loop.again, recovering=loop.recovering, output=output)
        return end, loop.again

    def _output_of(self, prefixes: Mapping[int, str]) -> Output:
        """The output of the job, which lives as long as the job, even if its peers start anew."""
        if self._output is None:
            options = self._options
            self._output = Output(
                {}, quiet=options.quiet, logfile=options.logfile, logdir=options.logdir
            )
        for rank, prefix in prefixes.items():
            self._output.add(rank, prefix)
        return self._output

    def _prepare(self, cluster: Cluster, output: Output) -> Job:
        """Makes the common properties of this host's peers."""
        options, environ = self._options, self._environ
        if cluster.several_hosts:
            # Processes left by the previous peers must not be taken for peers of this run.
            description = f"{cluster.description} {self._restarts}"
            identity = credentials.several_hosts(
                self._given.secret, description, insecure=options.insecure
            )
        else:
            identity = credentials.one_host()
        gpus = gpu_placement.place(cluster.local_peers, gpu_placement.visible_gpus(environ))
        number = len(cluster.local_peers)
        binding = core_shares.bound(
            number, environ, may_change=options.watch, may_fall=options.survives
        )
        if not self._restarts:
            for warning in (identity.warning, gpus.warning, *core_environment.unknown(environ)):
                if warning is not None:
                    output.say(f"warning: {warning}")
            if number > 1:
                output.say(core_shares.describe(core_shares.shared_by(number, environ), binding))
        return Job(
            cluster,
            identity,
            run_directory.choose(),
            gpus,
            options,
            config_token=self._given.config_token,
            binding=binding,
            inherited=self._inherited,
            restarts=detection.restarts(environ) + self._restarts,
            recoveries=self._recoveries,
            progress=self._progress,
            epochs=self._epochs,
            early_failure=self._early_failure,
            began=self._began,
        )

    def _count_restart(self, size: int, *, recovering: bool, output: Output) -> None:
        self._restarts += 1
        after = ""
        if recovering:
            self._recoveries += 1
            most = plural(self._options.restarts, "time")
            after = f", {self._recoveries} of at most {most} after a failure"
        output.say(f"starting all anew, {plural(size, 'peer')}{after}", always=True)
