"""The event loop of a runner: starts this host's peers and sees them, all of them, to their end."""

import math
import os
import selectors
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kungfu_tf.launcher import cluster as clusters
from kungfu_tf.launcher import environment, process, summary, sweeper
from kungfu_tf.launcher.cluster import Peer
from kungfu_tf.launcher.control import ControlServer
from kungfu_tf.launcher.debug import DebugServer
from kungfu_tf.launcher.environment import Job
from kungfu_tf.launcher.errors import LaunchError
from kungfu_tf.launcher.guard import Guard
from kungfu_tf.launcher.membership import Actions, Membership
from kungfu_tf.launcher.output import Output
from kungfu_tf.launcher.pipes import Pipes
from kungfu_tf.launcher.process import PeerProcess
from kungfu_tf.launcher.signals import SignalPipe
from kungfu_tf.launcher.stop import Stop
from kungfu_tf.launcher.summary import Outcome

TIMED_OUT = 124
SILENT_AFTER = 10.0
STRAGGLERS_DEADLINE = 4.0

_TICK = 1.0
_LEAVING = 10.0


class JobLoop:
    """Runs one job. Single-threaded: whatever happens, happens in run().

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
        self._environ = environ
        self._grace = environment.grace_period(environ)
        self._selector = selectors.PollSelector()
        self._pipes = Pipes(output, self._selector)
        self._peers = list(job.cluster.local_peers)
        self._unstarted = list(self._peers)
        self._membership = self._start_membership() if job.options.watch else None
        self._control = ControlServer(
            job.directory.control,
            {peer.rank: str(peer) for peer in self._unstarted},
            self._selector,
            handler=self._membership,
        )
        self._debug = self._start_debug_server()
        self._processes: dict[int, PeerProcess] = {}
        self._stopped: set[int] = set()
        self._silent: set[int] = set()
        self._stop: Stop | None = None
        self._interrupts = 0
        self._forced_code: int | None = None
        self._start_error: LaunchError | None = None
        self._descriptors = process.raise_descriptor_limit()
        self._began = self._next_start = time.monotonic()

    def run(self) -> int:
        """Returns the exit code of the job.

        Raises:
            LaunchError: the program cannot be started; what was started before has ended.
        """
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)
        while self._unstarted or self._running():
            self._start_due()
            self._pipes.balance()
            for key, events in self._selector.select(self._timeout()):
                key.data(events)
            self._reap()
            self._check_time()
            self._check_silence()
            self._control.drop_strangers()
            if self._debug is not None:
                self._debug.drop_slow()
        self._end_stragglers()
        self._pipes.drain()
        if self._debug is not None:
            self._debug.close()
        self._control.close()
        self._selector.close()
        if self._start_error is not None:
            raise self._start_error
        code = self._conclude()
        # Who stops a job does not want to wait for a reader that has stopped, too.
        self._output.finish(math.inf if self._forced_code is None else self._grace)
        return code

    @property
    def outcomes(self) -> list[Outcome]:
        """How each peer ended. REQUIRES: run() has returned."""
        return [self._outcome(entry) for entry in self._processes.values()]

    def _running(self) -> list[PeerProcess]:
        return [entry for entry in self._processes.values() if entry.running]

    def _timeout(self) -> float:
        """Seconds until something is due by the clock."""
        now = time.monotonic()
        due = [now + _TICK]
        if self._unstarted:
            due.append(self._next_start)
        if self._stop is not None:
            due.append(self._stop.due)
        elif self._job.options.timeout is not None:
            due.append(self._began + self._job.options.timeout)
        return max(0.0, min(due) - now)

    def _start_due(self) -> None:
        while self._unstarted and time.monotonic() >= self._next_start:
            peer = self._unstarted.pop(0)
            env = self._environment_of(peer)
            try:
                started = PeerProcess(
                    peer,
                    self._job.options.command,
                    env,
                    descriptors=self._descriptors,
                    inherited=self._job.inherited,
                )
            except LaunchError as error:
                self._start_error = error
                self._end(signal.SIGTERM)
                return
            self._guard.watch(started.pid)
            self._processes[peer.rank] = started
            self._pipes.add(started)
            if self._job.options.verbose:
                self._output.say(f"rank {peer.rank} is {peer}, pid {started.pid}")
            self._next_start = time.monotonic() + self._job.options.delay

    def _environment_of(self, peer: Peer) -> dict[str, str]:
        if self._membership is None or peer in self._job.cluster.peers:
            return environment.of_peer(peer, self._job, self._environ)
        version = self._membership.version
        return environment.of_newcomer(peer, version, self._job, self._environ)

    def _start_membership(self) -> Membership:
        ranks = [peer.rank for peer in self._peers]
        actions = Actions(self._add, self._dismiss, self._publish, self._output.say)
        return Membership(ranks, self._job.cluster.slots, actions)

    def _add(self) -> int:
        """One more peer, which is to join."""
        ended = {rank for rank, entry in self._processes.items() if not entry.running}
        taken = {peer.slot for peer in self._peers if peer.rank not in ended}
        cluster, options = self._job.cluster, self._job.options
        peer = clusters.one_more(cluster, options, len(self._peers), taken)
        self._peers.append(peer)
        self._unstarted.append(peer)
        self._output.add(peer.rank, f"[{peer.rank}] ")
        self._control.add(peer.rank, str(peer))
        return peer.rank

    def _dismiss(self, rank: int) -> None:
        """Ends a newcomer that is not needed."""
        self._unstarted = [peer for peer in self._unstarted if peer.rank != rank]
        if rank in self._processes:
            self._stopped.add(rank)
            self._processes[rank].signal(signal.SIGTERM)

    def _publish(self, version: int, members: Sequence[int], told: Sequence[int]) -> None:
        self._control.announce_members(version, [str(self._peers[rank]) for rank in members], told)

    def _start_debug_server(self) -> DebugServer | None:
        port = self._job.options.debug_port
        if port is None:
            return None
        token_file = self._job.directory.debug_token
        server = DebugServer(port, token_file, self._state, self._selector)
        self._output.say(f"state of the peers: http://127.0.0.1:{port}/, token in {token_file}")
        return server

    def _end(self, first: int | None) -> None:
        """Begins to stop all peers; `first` as in Stop."""
        self._unstarted.clear()
        self._stop = Stop(first, self._grace, self._signal_all)

    def _signal_all(self, number: int) -> None:
        for entry in self._running():
            self._stopped.add(entry.peer.rank)
            entry.signal(number)

    def _on_signals(self, _events: int) -> None:
        for number in self._signals.take():
            if number != signal.SIGCHLD:
                self._interrupt(number)

    def _interrupt(self, number: int) -> None:
        self._interrupts += 1
        name = signal.Signals(number).name
        if self._interrupts > 1 and self._stop is not None:
            self._output.say(f"{name} again: killing all peers", always=True)
            self._stop.kill()
            return
        self._output.say(
            f"{name}: ending all peers, within {2 * self._grace:g} s; once more kills them",
            always=True,
        )
        if self._stop is None:
            self._forced_code = 128 + number
        self._end(number)

    def _check_time(self) -> None:
        timeout = self._job.options.timeout
        if self._stop is not None:
            self._stop.advance()
            if self._stop.exhausted:
                self._give_up()
        elif timeout is not None and time.monotonic() >= self._began + timeout:
            ranks = ", ".join(str(entry.peer.rank) for entry in self._running())
            self._output.say(
                f"-timeout: {timeout:g} s are over; running: rank {ranks}", always=True
            )
            self._forced_code = TIMED_OUT
            self._end(signal.SIGTERM)

    def _reap(self) -> None:
        """Records every child that has ended, and what follows from that."""
        by_pid = {entry.pid: entry for entry in self._running()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._guard.pid:
                self._guard.restart(os.waitstatus_to_exitcode(status))
            elif pid in by_pid:
                self._record(by_pid[pid], status)

    def _record(self, entry: PeerProcess, status: int) -> None:
        self._control.drain(entry.peer.rank)
        entry.record_end(status, time.monotonic())
        self._guard.forget(entry.pid)
        if self._membership is not None and self._stop is None:
            if self._membership.awaits(entry.peer.rank):
                self._stopped.add(entry.peer.rank)  # how it ended concerns nobody
            lost = self._membership.ended(entry.peer.rank, well=not entry.failed)
            if entry.failed and not lost:
                return
        if entry.failed and entry.peer.rank not in self._stopped:
            self._control.announce(entry.peer.rank, process.describe(entry.code or 0))
            if self._stop is None:
                self._end(None)
        elif not entry.failed:
            self._control.announce_left(entry.peer.rank)

    def _give_up(self) -> None:
        """On processes that even SIGKILL does not end, e.g. waiting for a dead file system."""
        for entry in self._running():
            self._output.say(
                f"rank {entry.peer.rank} (pid {entry.pid}) cannot be killed", always=True
            )
            entry.record_end(signal.SIGKILL, time.monotonic())

    def _end_stragglers(self) -> None:
        left = self._guard.left_behind()
        if not left:
            return
        names = "; ".join(f"pid {pid} ({command[:100]})" for pid, command in left.items())
        self._output.say(f"ending processes that the peers left behind: {names}", always=True)
        sweeper.sweep(self._guard.left_behind, deadline=STRAGGLERS_DEADLINE)

    def _check_silence(self) -> None:
        """Tells of peers that should say every second that they live, and do not."""
        now = time.monotonic()
        for rank, contact in self._control.contacts.items():
            quiet = contact.connected and now - (contact.heard or now) > SILENT_AFTER
            if quiet and rank not in self._silent:
                self._silent.add(rank)
                self._output.say(f"rank {rank} has given no sign of life for {SILENT_AFTER:g} s")
            elif not quiet and rank in self._silent:
                self._silent.discard(rank)
                if contact.connected:
                    self._output.say(f"rank {rank} is heard again")

    def _state(self) -> dict[str, Any]:
        """What -debug-port shows."""
        now = time.monotonic()
        peers = []
        for peer in self._peers:
            entry, contact = self._processes.get(peer.rank), self._control.contacts[peer.rank]
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
        size = len(self._membership.members if self._membership else self._job.cluster.peers)
        return {"seconds": now - self._began, "size": size, "peers": peers}

    def _conclude(self) -> int:
        outcomes = self.outcomes
        first = summary.first_failure(outcomes)
        if first is not None or self._forced_code == TIMED_OUT:
            self._output.say(summary.describe(outcomes), always=True)
        if self._forced_code is not None:
            return self._forced_code
        if first is not None:
            return process.exit_code(first.code)
        if self._job.options.verbose:
            seconds = time.monotonic() - self._began
            self._output.say(f"{len(outcomes)} peers ended well after {seconds:.1f} s")
        return 0

    def _outcome(self, entry: PeerProcess) -> Outcome:
        rank = entry.peer.rank
        contact = self._control.contacts[rank]
        assert entry.code is not None and entry.ended is not None
        return Outcome(
            rank=rank,
            host=str(entry.peer.address),
            pid=entry.pid,
            code=entry.code,
            seconds=entry.ended - entry.started,
            gone=_gone(entry.ended, contact.lost),
            stopped=rank in self._stopped,
            reports=contact.reports,
            last_lines=self._output.last_lines(rank),
        )


def _gone(ended: float, lost: float | None) -> float:
    """A connection that was closed long before the process ended was closed on purpose."""
    return ended if lost is None or ended - lost > _LEAVING else min(ended, lost)
