"""This host's peers as child processes of the runner."""

import os
import signal
import time
from collections.abc import Iterator, Mapping

from kungfu_tf.launcher.placing.cluster import Peer
from kungfu_tf.launcher.processes import peer_environment, peer_process
from kungfu_tf.launcher.processes.guard import Guard
from kungfu_tf.launcher.processes.job import Job
from kungfu_tf.launcher.processes.peer_process import PeerProcess


class Children:
    """All peers that this runner has started. Used by the event loop's thread only.

    Attributes:
        by_number: The processes by the numbers of their peers.

    Args:
        job: The job.
        environ: The launcher's environment. Each peer gets a version of its own.
        guard: Watches the processes, and all that they leave behind.
    """

    def __init__(self, job: Job, environ: Mapping[str, str], guard: Guard) -> None:
        self._job = job
        self._environ = environ
        self._guard = guard
        self._descriptors = peer_process.raise_descriptor_limit()
        self.by_number: dict[int, PeerProcess] = {}

    def start(self, peer: Peer, version: int | None) -> PeerProcess:
        """Starts a peer.

        Args:
            peer: The peer.
            version: The membership version that a newcomer joins; None for the first peers.

        Raises:
            LaunchError: If the program cannot be started.
        """
        job = self._job
        if version is None:
            env = peer_environment.of_peer(peer, job, self._environ)
        else:
            env = peer_environment.of_newcomer(peer, version, job, self._environ)
        started = PeerProcess(
            peer,
            job.options.command,
            env,
            cores=job.binding.of_peer(peer.local_rank),
            descriptors=self._descriptors,
            inherited=job.inherited,
        )
        self._guard.watch(started.pid)
        self.by_number[peer.rank] = started
        return started

    @property
    def running(self) -> list[PeerProcess]:
        return [entry for entry in self.by_number.values() if entry.running]

    @property
    def over(self) -> set[int]:
        """The numbers of the peers that have ended."""
        return {number for number, entry in self.by_number.items() if not entry.running}

    def signal(self, number: int, signum: int) -> None:
        """Sends a signal to a peer, if it runs."""
        if number in self.by_number:
            self.by_number[number].signal(signum)

    def reap(self) -> Iterator[PeerProcess]:
        """The processes that have ended since the last call. Restarts a guard that has ended."""
        by_pid = {entry.pid: entry for entry in self.running}
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
                by_pid[pid].record_end(status, time.monotonic())
                self._guard.forget(pid)
                yield by_pid[pid]

    def give_up(self) -> Iterator[PeerProcess]:
        """Counts as ended what SIGKILL does not end, as it may wait for a dead file system."""
        for entry in self.running:
            entry.record_end(signal.SIGKILL, time.monotonic())
            yield entry
