"""The event loop of a runner: starts this host's peers and sees them, all of them, to their end."""

import math
import selectors
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kungfu_tf import config
from kungfu_tf.launcher.channels import event_turn
from kungfu_tf.launcher.channels.control import EARLIER, ControlServer
from kungfu_tf.launcher.channels.debug_server import DebugServer
from kungfu_tf.launcher.channels.heartbeat import Silence
from kungfu_tf.launcher.channels.signals import SignalPipe
from kungfu_tf.launcher.deciding.director import Director, Rules
from kungfu_tf.launcher.deciding.follower import Follower
from kungfu_tf.launcher.deciding.leader import Leader
from kungfu_tf.launcher.deciding.leader_of_others import LeaderOfOthers
from kungfu_tf.launcher.deciding.runner_link import Link
from kungfu_tf.launcher.document import config_source
from kungfu_tf.launcher.document.config_source import Source
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.options.plural import counted
from kungfu_tf.launcher.output import summary
from kungfu_tf.launcher.output.job_output import Output
from kungfu_tf.launcher.output.output_wait import TIMED_OUT, Patience
from kungfu_tf.launcher.output.pipes import Pipes
from kungfu_tf.launcher.output.summary import Outcome
from kungfu_tf.launcher.placing import cluster as clusters
from kungfu_tf.launcher.placing.cluster import Peer
from kungfu_tf.launcher.processes import peer_process, sweeper
from kungfu_tf.launcher.processes.children import Children
from kungfu_tf.launcher.processes.guard import Guard
from kungfu_tf.launcher.processes.peer_environment import Job
from kungfu_tf.launcher.processes.peer_process import PeerProcess
from kungfu_tf.launcher.processes.shutdown import Stop

STRAGGLERS_DEADLINE = 4.0

_TICK = 1.0
_LEAVING = 10.0


class JobLoop:
    """Runs this host's part of one job. Single-threaded: whatever happens, happens in run().

    Its Director decides what is to be done; it is the Host that does it here.

    Args:
        environ: the launcher's environment, of which each peer gets a version of its own.
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
        self._guard = guard
        self._signals = signals
        self._grace = config.GRACE.get(environ=environ)
        self._selector = selectors.PollSelector()
        self._pipes = Pipes(output, self._selector)
        self._peers = {peer.rank: peer for peer in job.cluster.local_peers}
        self._unstarted = list(self._peers)
        self._joins: dict[int, int] = {}  # newcomers, and which version of the membership they join
        self._director = self._choose_director()
        self._control = ControlServer(
            job.directory.control,
            {rank: str(peer) for rank, peer in self._peers.items()},
            self._selector,
            handler=self._director if job.options.watch else None,
            order=self._director.order if isinstance(self._director, Leader) else None,
        )
        self._silence = Silence(
            self._control.contacts,
            say=output.say,
            patience=job.options.auto_recover,
            give_up=self._kill,
        )
        self._debug = self._start_debug_server()
        self._source = self._start_source()
        self._children = Children(job, environ, guard)
        self._stopped: set[int] = set()
        self._stop: Stop | None = None
        self._interrupts = 0
        self._forced_code: int | None = None
        self._start_error: LaunchError | None = None
        self._began = job.began
        self._next_start = time.monotonic()

    def run(self) -> int:
        """Returns the exit code of the job.

        Raises:
            LaunchError: the program cannot be started; what was started before has ended.
        """
        self._selector.register(self._signals, selectors.EVENT_READ, lambda _events: None)
        while self._unstarted or self._children.running or not self._director.over:
            self._start_due()
            self._pipes.balance()
            happened = self._selector.select(self._timeout())
            # Whoever a signal has ended, too, has not failed; and nobody waits for one that is dead
            # because of what the others say now.
            self._take_signals()
            self._reap()
            event_turn.take(self._selector, happened)
            self._check_time()
            self._silence.check()
            self._control.drop_strangers()
            self._director.advance()
            if self._source is not None:
                self._source.advance()
            if self._debug is not None:
                self._debug.drop_slow()
        if self._source is not None:
            self._source.close()
        self._end_stragglers()
        self._pipes.drain()
        self._director.close()
        if self._debug is not None:
            self._debug.close()
        self._control.close()
        self._selector.close()
        if self._start_error is not None:
            raise self._start_error
        patience = Patience(
            self._conclude(),
            ending=self._forced_code is not None,
            signals=self._signals,
            time_limit=self._began + (self._job.options.timeout or math.inf),
            grace=self._grace,
            say=self._say,
        )
        self._output.finish(patience.over)
        if patience.ending and self._forced_code is None:
            self._forced_code = patience.code
        return patience.code

    @property
    def again(self) -> int | None:
        """As how many peers the job is to be started anew. REQUIRES: run() has returned."""
        return self._director.again if self._forced_code is None else None

    @property
    def recovering(self) -> bool:
        """Whether that is because of a failure."""
        return self._director.recovering

    @property
    def outcomes(self) -> list[Outcome]:
        """How each peer ended. REQUIRES: run() has returned."""
        return [self._outcome(entry) for entry in self._children.by_number.values()]

    def _timeout(self) -> float:
        """Seconds until something is due by the clock."""
        now = time.monotonic()
        due = [now + _TICK, self._director.due]
        if self._unstarted:
            due.append(self._next_start)
        if self._stop is not None:
            due.append(self._stop.due)
        elif self._job.options.timeout is not None:
            due.append(self._began + self._job.options.timeout)
        return max(0.0, min(due) - now)

    def _start_due(self) -> None:
        while self._unstarted and time.monotonic() >= self._next_start:
            number = self._unstarted.pop(0)
            if number in self._stopped:
                self._director.ended(number, 0, stopped=True)
                continue
            try:
                self._start(self._peers.get(number) or self._newcomer(number))
            except LaunchError as error:
                if number in self._joins:
                    self._output.say(f"newcomer {number}: {error}", always=True)
                else:
                    self._start_error = error
                self._director.ended(number, error.exit_code, stopped=False)
                continue
            self._next_start = time.monotonic() + self._job.options.delay

    def _start(self, peer: Peer) -> None:
        started = self._children.start(peer, self._joins.get(peer.rank))
        self._pipes.add(started)
        if self._job.options.verbose:
            self._output.say(f"rank {peer.rank} is {peer}, pid {started.pid}")

    def _newcomer(self, number: int) -> Peer:
        over = self._children.over
        taken = {peer.slot for rank, peer in self._peers.items() if rank not in over}
        peer = clusters.one_more(self._job.cluster, self._job.options, number, taken)
        self._peers[number] = peer
        self._output.add(number, self._job.cluster.prefix(peer))
        self._control.add(number, str(peer))
        self._director.started(number, str(peer))
        return peer

    def _choose_director(self) -> Director:
        cluster, options = self._job.cluster, self._job.options
        recovers = options.auto_recover is not None
        rules = Rules(
            watch=options.watch,
            reload=options.elastic_mode == "reload",
            keep=options.keep,
            recoveries=options.restarts - self._job.recoveries if recovers else 0,
        )
        if not (cluster.several_hosts and (options.watch or recovers)):
            return Leader(cluster, {cluster.here: self}, rules, say=self._output.say)
        link = Link(self._job.credentials, options.runner_port, self._selector)
        if cluster.leads:
            return LeaderOfOthers(cluster, self, link, rules, say=self._say)
        return Follower(cluster, self, link, say=self._say)

    def _start_source(self) -> Source | None:
        """Where the job, if it may change, also hears of its size."""
        if not (self._job.options.watch and isinstance(self._director, Leader)):
            return None
        self._director.source = config_source.choose(
            self._job, self._selector, self._director.follow, self._say
        )
        return self._director.source

    def _say(self, text: str) -> None:
        self._output.say(text, always=True)

    def start(self, number: int, version: int) -> None:
        self._joins[number] = version
        self._unstarted.append(number)

    def dismiss(self, number: int) -> None:
        self._stopped.add(number)
        self._children.signal(number, signal.SIGTERM)

    def forgive(self, number: int) -> None:
        self._stopped.add(number)

    def publish(self, version: int, since: int, peers: Sequence[str], told: Sequence[int]) -> None:
        self._control.announce_members(version, since, peers, told)

    def failed(self, peer: str, text: str) -> None:
        self._control.announce(peer, text)

    def left(self, peer: str) -> None:
        self._control.announce_left(peer)

    def end(self, first: int, code: int) -> None:
        if self._stop is None:
            self._stop_peers(first)

    def _start_debug_server(self) -> DebugServer | None:
        port = self._job.options.debug_port
        if port is None:
            return None
        token_file = self._job.directory.debug_token
        server = DebugServer(port, token_file, self._state, self._selector)
        self._output.say(f"state of the peers: http://127.0.0.1:{port}/, token in {token_file}")
        return server

    def _stop_peers(self, first: int) -> None:
        """Begins to stop all peers of this host; `first` as in Host.end."""
        unstarted, self._unstarted = self._unstarted, []
        self._stop = Stop(first or None, self._grace, self._signal_all)
        for number in unstarted:
            self._director.ended(number, 0, stopped=True)

    def _signal_all(self, number: int) -> None:
        for entry in self._children.running:
            self._stopped.add(entry.peer.rank)
            entry.signal(number)

    def _kill(self, number: int) -> None:
        self._children.signal(number, signal.SIGKILL)

    def _take_signals(self) -> None:
        for number in self._signals.take():
            if number != signal.SIGCHLD:
                self._interrupt(number)

    def _interrupt(self, number: int) -> None:
        self._interrupts += 1
        name = signal.Signals(number).name
        if self._interrupts > 1 and self._stop is not None:
            self._output.say(f"{name} again: killing all peers", always=True)
            self._stop.kill()
            self._director.close()
            return
        self._output.say(
            f"{name}: ending all peers, within {2 * self._grace:g} s; once more kills them",
            always=True,
        )
        if self._stop is None or self._director.again is not None:
            self._forced_code = 128 + number
        stopping = self._stop is not None
        self._director.end(number, 128 + number)
        if stopping:
            self._stop_peers(number)

    def _check_time(self) -> None:
        timeout = self._job.options.timeout
        if self._stop is not None:
            self._stop.advance()
            if self._stop.exhausted:
                self._give_up()
        elif timeout is not None and time.monotonic() >= self._began + timeout:
            ranks = ", ".join(str(entry.peer.rank) for entry in self._children.running)
            self._output.say(
                f"-timeout: {timeout:g} s are over; running: rank {ranks}", always=True
            )
            self._forced_code = TIMED_OUT
            self._director.end(signal.SIGTERM, TIMED_OUT)

    def _reap(self) -> None:
        """What follows from it that a child has ended."""
        for entry in self._children.reap():
            number = entry.peer.rank
            self._control.drain(number)
            self._director.ended(number, entry.code or 0, stopped=number in self._stopped)

    def _give_up(self) -> None:
        for entry in self._children.give_up():
            number = entry.peer.rank
            self._output.say(f"rank {number} (pid {entry.pid}) cannot be killed", always=True)
            self._director.ended(number, -signal.SIGKILL, stopped=True)

    def _end_stragglers(self) -> None:
        left = self._guard.left_behind()
        if not left:
            return
        names = "; ".join(f"pid {pid} ({command[:100]})" for pid, command in left.items())
        self._output.say(f"ending processes that the peers left behind: {names}", always=True)
        sweeper.sweep(self._guard.left_behind, deadline=STRAGGLERS_DEADLINE)

    def _state(self) -> dict[str, Any]:
        """What -debug-port shows."""
        now = time.monotonic()
        peers = []
        for peer in self._peers.values():
            entry = self._children.by_number.get(peer.rank)
            contact = self._control.contacts[peer.rank]
            peers.append(
                {
                    "rank": peer.rank,
                    "peer": str(peer),
                    "pid": entry and entry.pid,
                    "exit_code": entry and entry.code,
                    "connected": contact.connected,
                    "silent_seconds": None if contact.heard is None else now - contact.heard,
                    "reports": len(contact.reports),
                }
            )
        return {"seconds": now - self._began, "size": self._director.size, "peers": peers}

    def _conclude(self) -> int:
        outcomes = self.outcomes
        first = summary.first_failure(outcomes)
        if first is not None or self._forced_code == TIMED_OUT:
            self._output.say(summary.describe(outcomes), always=True)
        elif self._forced_code is not None:
            name = signal.Signals(self._forced_code - 128).name
            self._say(f"ended by {name}, and by no failure of a peer")
        if self._forced_code is not None:
            return self._forced_code
        if first is not None:
            return peer_process.exit_code(first.code)
        if self._director.code:
            return self._director.code
        if self._job.options.verbose:
            seconds = time.monotonic() - self._began
            self._output.say(f"{counted(len(outcomes), 'peer')} ended well after {seconds:.1f} s")
        return 0

    def _outcome(self, entry: PeerProcess) -> Outcome:
        rank = entry.peer.rank
        contact = self._control.contacts[rank]
        assert entry.code is not None and entry.ended is not None
        earlier = [r.text for r in contact.reports if entry.ended - r.at > EARLIER]
        return Outcome(
            rank=rank,
            host=str(entry.peer.address),
            pid=entry.pid,
            code=entry.code,
            seconds=entry.ended - entry.started,
            gone=_gone(entry.ended, contact.lost),
            stopped=rank in self._stopped,
            given_up=rank in self._silence.given_up,
            let_go=contact.let_go,
            reports=[report.text for report in contact.reports[len(earlier) :]],
            earlier=earlier,
            last_lines=self._output.last_lines(rank),
        )


def _gone(ended: float, lost: float | None) -> float:
    """A connection that was closed long before the process ended was closed on purpose."""
    return ended if lost is None or ended - lost > _LEAVING else min(ended, lost)
