"""This runner as a Host: its peers are child processes, which hear of decisions by a socket."""

import math
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kungfu_tf import config
from kungfu_tf.launcher.channels.control import ControlServer
from kungfu_tf.launcher.channels.heartbeat import Heartbeat
from kungfu_tf.launcher.deciding.director import Director, Host
from kungfu_tf.launcher.deciding.leader import Leader
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.options.plural import plural
from kungfu_tf.launcher.output import outcome
from kungfu_tf.launcher.output.job_output import Output
from kungfu_tf.launcher.output.outcome import Outcome
from kungfu_tf.launcher.output.pipes import Pipes
from kungfu_tf.launcher.placing import cluster as clusters
from kungfu_tf.launcher.placing.cluster import Peer
from kungfu_tf.launcher.processes import sweeper
from kungfu_tf.launcher.processes.children import Children
from kungfu_tf.launcher.processes.guard import Guard
from kungfu_tf.launcher.processes.job import Job
from kungfu_tf.launcher.processes.shutdown import Shutdown

STRAGGLERS_DEADLINE = 4.0


class OwnHost:
    """Starts, watches and stops this host's peers. Used by the event loop's thread only.

    Attributes:
        director: The Director that it reports to.
        start_error: Why one of the first peers could not be started; None if all could.

    Args:
        job: The job.
        environ: The launcher's environment. Each peer gets a version of its own.
        output: The output of the job.
        guard: Watches the processes, and all that they leave behind.
        selector: The selector of the event loop.
        choose_director: Called once, with this host.

    Raises:
        LaunchError: If a port that it needs is not available.
    """

    def __init__(
        self,
        job: Job,
        environ: Mapping[str, str],
        output: Output,
        guard: Guard,
        selector: selectors.BaseSelector,
        choose_director: Callable[[Host], Director],
    ) -> None:
        self._job = job
        self._output = output
        self._guard = guard
        self._grace = config.GRACE.get(environ=environ)
        self._pipes = Pipes(output, selector)
        self._peers = {peer.rank: peer for peer in job.cluster.local_peers}
        self._unstarted = list(self._peers)
        self._joins: dict[int, int] = {}  # newcomers, and the membership version that they join
        self._stopped: set[int] = set()
        self._forgiven: set[int] = set()
        self._overdue: set[int] = set()  # these had to be killed
        self._notice: float | None = None  # when the peers must have left, if they were asked to
        self._shutdown: Shutdown | None = None
        self._next_start = time.monotonic()
        self.start_error: LaunchError | None = None
        self.director = choose_director(self)
        self._control = ControlServer(
            job.directory.control,
            {rank: str(peer) for rank, peer in self._peers.items()},
            selector,
            handler=self.director if job.options.watch or job.options.survives else None,
            order=self.director.order if isinstance(self.director, Leader) else None,
        )
        self._heartbeat = Heartbeat(
            self._control.contacts,
            say=output.say,
            give_up_after=job.options.patience,
            give_up=self._kill,
        )
        self._children = Children(job, environ, guard)

    @property
    def busy(self) -> bool:
        """Whether some peers run, or wait to be started."""
        return bool(self._unstarted or self._children.running)

    @property
    def stopping(self) -> bool:
        """Whether all peers are being stopped."""
        return self._shutdown is not None

    @property
    def has_left(self) -> bool:
        """Whether the peers of this host were asked to leave, and none is left."""
        return self._notice is not None and not self.busy

    @property
    def has_begun(self) -> bool:
        """Whether an operation of a program has succeeded on a peer of this host."""
        return any(contact.has_begun for contact in self._control.contacts.values())

    @property
    def due(self) -> float:
        """The time.monotonic() at which something is due."""
        start = self._next_start if self._unstarted else math.inf
        notice = math.inf if self._notice is None else self._notice
        return min(start, notice, self._shutdown.due if self._shutdown else math.inf)

    @property
    def running(self) -> list[int]:
        """The ranks of the peers that run."""
        return [entry.peer.rank for entry in self._children.running]

    @property
    def outcomes(self) -> list[Outcome]:
        """How each peer ended. REQUIRES: all have."""
        return [
            outcome.outcome_of(
                entry,
                self._control.contacts[number],
                stopped=number in self._stopped,
                forgiven=number in self._forgiven or self._notice is not None,
                given_up=number in self._heartbeat.given_up,
                overdue=number in self._overdue,
                last_lines=self._output.last_lines(number),
            )
            for number, entry in self._children.by_number.items()
        ]

    def describe(self) -> list[dict[str, Any]]:
        """The state of each peer, as -debug-port shows it."""
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
        return peers

    def prepare(self) -> None:
        """Does the work that is due before the event loop waits."""
        while self._unstarted and time.monotonic() >= self._next_start:
            self._start_next(self._unstarted.pop(0))
        self._pipes.balance()

    def reap(self) -> None:
        """Reports each child that has ended to the director."""
        for entry in self._children.reap():
            number = entry.peer.rank
            self._control.drain(number)
            if number in self._joins:
                self._job.cluster.reservation.give_back(entry.peer.port)
            stopped = number in self._stopped | self._forgiven
            self.director.ended(number, entry.code or 0, stopped=stopped)

    def advance_shutdown(self) -> None:
        """Takes the next step of stopping all peers if it is due."""
        if self._shutdown is None:
            return
        self._shutdown.advance()
        if not self._shutdown.exhausted:
            return
        for entry in self._children.give_up():
            number = entry.peer.rank
            self._output.say(f"rank {number} (pid {entry.pid}) cannot be killed", always=True)
            self.director.ended(number, -signal.SIGKILL, stopped=True)

    def give_notice(self) -> None:
        """Asks the peers of this host to leave. The others go on without them."""
        self._notice = time.monotonic() + 2 * self._grace
        unstarted, self._unstarted = self._unstarted, []
        for entry in self._children.running:
            entry.signal(signal.SIGTERM)
        for number in unstarted:
            self.director.ended(number, 0, stopped=True)

    def advance_notice(self) -> None:
        """Kills the peers that have not left in time, which the others survive, too."""
        if self._notice is not None and time.monotonic() >= self._notice:
            self._notice = math.inf
            for entry in self._children.running:
                self._overdue.add(entry.peer.rank)
                entry.signal(signal.SIGKILL)

    def check_contacts(self) -> None:
        """Looks for silent peers, and for strangers. To be called now and then."""
        self._heartbeat.check()
        self._control.drop_strangers()

    def kill_all(self) -> None:
        """Takes the last step of stopping all peers at once."""
        assert self._shutdown is not None
        self._shutdown.kill()

    def begin_shutdown(self, first: int) -> None:
        """Begins to stop all peers, perhaps again. For `first` see Host.stop_all."""
        unstarted, self._unstarted = self._unstarted, []
        self._shutdown = Shutdown(first or None, self._grace, self._signal_all)
        for number in unstarted:
            self.director.ended(number, 0, stopped=True)

    def close(self) -> None:
        """Stops the processes that the peers have left behind. REQUIRES: they have ended."""
        left = self._guard.left_behind()
        if left:
            names = "; ".join(f"pid {pid} ({command[:100]})" for pid, command in left.items())
            self._output.say(f"stopping processes that the peers left behind: {names}", always=True)
            sweeper.sweep(self._guard.left_behind, deadline=STRAGGLERS_DEADLINE)
        self._pipes.drain()
        self._control.close()

    def start(self, number: int, version: int) -> None:
        self._joins[number] = version
        self._unstarted.append(number)

    def dismiss(self, number: int) -> None:
        self._stopped.add(number)
        self._children.signal(number, signal.SIGTERM)

    def forgive(self, number: int) -> None:
        self._forgiven.add(number)

    def publish(
        self,
        version: int,
        since: int,
        peers: Sequence[str],
        told: Sequence[int],
        lost: str = "",
    ) -> None:
        self._control.announce_members(version, since, peers, told, lost)

    def renew(self, version: int, told: Sequence[int]) -> None:
        self._control.renew(version, told)

    def failed(self, peer: str, text: str) -> None:
        self._control.announce_failed(peer, text)

    def finished(self, peer: str) -> None:
        self._control.announce_finished(peer)

    def warn(self, signum: int) -> None:
        name, number = signal.Signals(signum).name, len(self._children.running)
        self._output.say(f"{name}: handed to {plural(number, 'peer')}", always=True)
        for entry in self._children.running:
            entry.signal(signum)

    def stop_all(self, first: int, code: int) -> None:
        if self._shutdown is None:
            self.begin_shutdown(first)

    def _start_next(self, number: int) -> None:
        if number in self._stopped | self._forgiven:
            self.director.ended(number, 0, stopped=True)
            return
        try:
            self._start(self._peers.get(number) or self._newcomer(number))
        except LaunchError as error:
            if number in self._joins:
                self._output.say(f"newcomer {number}: {error}", always=True)
            else:
                self.start_error = error
            self.director.ended(number, error.exit_code, stopped=False)
            return
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
        self.director.started(number, str(peer))
        return peer

    def _signal_all(self, number: int) -> None:
        for entry in self._children.running:
            self._stopped.add(entry.peer.rank)
            entry.signal(number)
            if number == signal.SIGKILL and self._shutdown and not self._shutdown.hurried:
                self._overdue.add(entry.peer.rank)

    def _kill(self, number: int) -> None:
        self._children.signal(number, signal.SIGKILL)
