"""The event loop of a runner, which runs until all peers of this host have ended."""

import collections
import functools
import math
import selectors
import signal
import time
from collections.abc import Mapping
from typing import Any

from kungfu_tf import config
from kungfu_tf.launcher.channels import event_turn
from kungfu_tf.launcher.channels.debug_server import DebugServer
from kungfu_tf.launcher.channels.signals import ENDING, SignalPipe
from kungfu_tf.launcher.deciding import choosing
from kungfu_tf.launcher.deciding.leader import Leader
from kungfu_tf.launcher.deciding.own_host import OwnHost
from kungfu_tf.launcher.document import config_source
from kungfu_tf.launcher.document.config_source import Source
from kungfu_tf.launcher.options.plural import plural
from kungfu_tf.launcher.output import verdict
from kungfu_tf.launcher.output.job_output import Output
from kungfu_tf.launcher.output.outcome import Outcome
from kungfu_tf.launcher.output.output_wait import TIMED_OUT, OutputWait
from kungfu_tf.launcher.placing.host_script import HostScript
from kungfu_tf.launcher.processes.guard import Guard
from kungfu_tf.launcher.processes.job import Job

_TICK = 1.0


class JobLoop:
    """Runs this host's part of one job, in one thread: run() does all the work.

    Its Director decides, and its OwnHost carries the decisions out on this host.

    Args:
        job: The job.
        output: The output of the job.
        guard: Watches the processes of the job.
        signals: The signals that this process gets.
        environ: The launcher's environment. Each peer gets a version of its own.
    """

    def __init__(
        self,
        job: Job,
        output: Output,
        guard: Guard,
        signals: SignalPipe,
        environ: Mapping[str, str],
    ) -> None:
        self._job = job
        self._output = output
        self._say = functools.partial(output.say, always=True)
        self._signals = signals
        self._grace = config.GRACE.get(environ=environ)
        self._selector = selectors.PollSelector()
        self._host = OwnHost(
            job,
            environ,
            output,
            guard,
            self._selector,
            lambda host: choosing.choose(job, host, self._selector, output),
        )
        self._director = self._host.director
        self._debug = self._start_debug_server()
        self._source = self._start_source()
        self._host_script = self._start_host_script()
        self._interrupts = 0
        self._warnings: collections.Counter[int] = collections.Counter()
        self._forced_code: int | None = None

    def run(self) -> int:
        """Returns the exit code of the job.

        Raises:
            LaunchError: If the program cannot be started. Peers that were started before have
                ended.
        """
        self._selector.register(self._signals, selectors.EVENT_READ, lambda _events: None)
        while self._host.busy or not (self._director.over or self._host.has_left):
            self._turn()
        self._close()
        if self._host.start_error is not None:
            raise self._host.start_error
        wait = OutputWait(
            self._conclude(),
            ending=self._forced_code is not None,
            signals=self._signals,
            time_limit=self._time_limit,
            grace=self._grace,
            say=self._say,
        )
        self._output.finish(wait.over)
        if wait.ending and self._forced_code is None:
            self._forced_code = wait.code
        return wait.code

    @property
    def again(self) -> int | None:
        """As how many peers the job starts anew; None: it is over. REQUIRES: run() has ended."""
        return self._director.again if self._forced_code is None else None

    @property
    def recovering(self) -> bool:
        """Whether the job is started anew because of a failure."""
        return self._director.recovering

    @property
    def early_failure(self) -> int | None:
        """The exit code of the failure, if no peer was up before it."""
        return self._director.early_failure

    @property
    def outcomes(self) -> list[Outcome]:
        """How each peer ended. REQUIRES: run() has returned."""
        return self._host.outcomes

    @property
    def _time_limit(self) -> float:
        """When -timeout is over, on the monotonic clock."""
        timeout = self._job.options.timeout
        return math.inf if timeout is None else self._job.began + timeout

    def _turn(self) -> None:
        self._host.prepare()
        happened = self._selector.select(self._until_due())
        # A peer that the same signal has ended has not failed. Ends are handled before reports of
        # the others, so that no peer waits for one that has ended.
        self._take_signals()
        self._host.reap()
        event_turn.take(self._selector, happened)
        self._check_time()
        self._host.check_contacts()
        self._director.advance()
        for asked in (self._source, self._host_script):
            if asked is not None:
                asked.advance()
        if self._debug is not None:
            self._debug.drop_slow()

    def _until_due(self) -> float:
        """Seconds until something is due by the clock."""
        now = time.monotonic()
        due = [now + _TICK, self._director.due, self._host.due]
        if not self._host.stopping:
            due.append(self._time_limit)
        return max(0.0, min(due) - now)

    def _close(self) -> None:
        for asked in (self._source, self._host_script):
            if asked is not None:
                asked.close()
        self._host.close()
        self._director.close()
        if self._debug is not None:
            self._debug.close()
        self._selector.close()

    def _start_source(self) -> Source | None:
        """The document that may ask for a number of peers; None if the job does not change."""
        if not (self._job.options.watch and isinstance(self._director, Leader)):
            return None
        self._director.source = config_source.choose(
            self._job, self._selector, self._director.follow, self._say
        )
        return self._director.source

    def _start_host_script(self) -> HostScript | None:
        """The program that says which hosts there are; None: they stay the same."""
        options, leader = self._job.options, self._director
        if options.host_script is None or not isinstance(leader, Leader):
            return None
        most = options.max_np or options.np or 1
        return HostScript(options.host_script, lambda hosts: leader.offer(hosts, most), self._say)

    def _start_debug_server(self) -> DebugServer | None:
        port = self._job.options.debug_port
        if port is None:
            return None
        token_file = self._job.directory.debug_token
        server = DebugServer(port, token_file, self._state, self._selector)
        self._output.say(f"state of the peers: http://127.0.0.1:{port}/, token in {token_file}")
        return server

    def _state(self) -> dict[str, Any]:
        """The state that -debug-port shows."""
        seconds = time.monotonic() - self._job.began
        return {"seconds": seconds, "size": self._director.size, "peers": self._host.describe()}

    def _take_signals(self) -> None:
        for number in self._signals.take():
            if number in ENDING:
                self._interrupt(number)
            elif number != signal.SIGCHLD:
                self._warn(number)

    def _warn(self, number: int) -> None:
        """Passes a signal that does not end the job to the peers of all hosts."""
        self._warnings[number] += 1
        self._director.warned(number, self._warnings[number])

    def _interrupt(self, number: int) -> None:
        self._interrupts += 1
        name = signal.Signals(number).name
        if self._interrupts > 1 and self._host.stopping:
            self._say(f"{name} again: killing all peers")
            self._host.kill_all()
            self._director.close()
            return
        if self._interrupts == 1 and number == signal.SIGTERM and self._director.outlives:
            self._say(f"{name}: the peers of this host leave, within {2 * self._grace:g} s")
            self._host.give_notice()
            return
        self._say(f"{name}: stopping all peers, within {2 * self._grace:g} s; once more kills them")
        stopping = self._host.stopping
        if not stopping or self._director.again is not None:
            self._forced_code = 128 + number
        self._director.stop_all(number, 128 + number)
        if stopping:
            self._host.begin_shutdown(number)

    def _check_time(self) -> None:
        self._host.advance_notice()
        if self._host.stopping:
            self._host.advance_shutdown()
        elif time.monotonic() >= self._time_limit:
            ranks = ", ".join(map(str, self._host.running))
            self._say(f"-timeout: {self._job.options.timeout:g} s are over; running: rank {ranks}")
            self._forced_code = TIMED_OUT
            self._director.stop_all(signal.SIGTERM, TIMED_OUT)

    def _conclude(self) -> int:
        """Tells the user how the job has ended. Returns its exit code."""
        outcomes = self.outcomes
        code, reason = verdict.conclude(
            outcomes, forced=self._forced_code, others=self._director.code
        )
        if reason is not None:
            self._say(reason)
        elif code == 0 and self._job.options.verbose:
            seconds = time.monotonic() - self._job.began
            self._output.say(f"{plural(len(outcomes), 'peer')} finished after {seconds:.1f} s")
        return code
