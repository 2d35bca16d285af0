"""The place of one peer within a process of an engine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping

from kungfu_tf import config
from kungfu_tf.engines.orders import Order, variables_of_peer
from kungfu_tf.engines.peer_control import PeerControl
from kungfu_tf.environments import rendezvous
from kungfu_tf.function_launch import channel, programs
from kungfu_tf.function_launch.results import Child
from kungfu_tf.launcher.placing import core_shares
from kungfu_tf.launcher.processes import run_directory
from kungfu_tf.launcher.processes.guard import Guard
from kungfu_tf.native import environment, socket_directory


class Worker:
    """Holds a port, and runs the peer that gets it in a child.

    One thread calls `run`; another one may call `stop`. The child writes where this process does.

    Args:
        host: The address of this host, which the other hosts can reach.
    """

    def __init__(self, host: str) -> None:
        port, self._held = rendezvous.reserve(0)
        self._port = port
        self._host = host
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._child: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        self._grace = 0.0

    def run(
        self,
        order: Order,
        own: Mapping[str, str],
        rows: int | None = None,
        control: PeerControl | None = None,
    ) -> Child:
        """Runs the peer with this worker's address until its process has ended.

        Args:
            order: The job.
            own: Variables for this peer alone.
            rows: The descriptor of its rows, see row_file.py.
            control: How the caller of an elastic job reaches it.
        """
        self._grace = order.grace
        rank = order.peers.index(self.address)
        sockets = socket_directory.make(order.job, order.secret)
        directory = run_directory.choose()
        environ = {
            **self._environ(order, rank),
            **own,
            "KUNGFU_SOCKET_DIR": str(sockets),
            config.RUNNER.name: directory.runner,
        }
        if rows is not None:
            environ[config.ROWS.name] = f"/proc/self/fd/{rows}"
        try:
            with contextlib.ExitStack() as stack:
                files = stack.enter_context(channel.opened(1))
                guard = stack.enter_context(Guard(directory))
                wait: Callable[[subprocess.Popen[bytes]], int] = subprocess.Popen.wait
                if control is not None:
                    directory.create()
                    environ["KUNGFU_CONTROL"] = directory.control
                    wait = stack.enter_context(control.serving(directory.control, self.address))
                channel.write(files.function, order.call)
                with self._started(environ, (files.function, *files.results), rows) as child:
                    guard.watch(child.pid)
                    code, pid = wait(child), child.pid
                record = channel.read(files.results[0])
                sent = None if record is None else bytes(record)
                return Child(rank, self._host, pid, code, sent)
        finally:
            socket_directory.leave(sockets, self._port)

    def stop(self) -> None:
        """Ends the child: it has the KUNGFU_GRACE seconds of the caller to clean up."""
        self._is_stopped = True
        if self._child is None or self._child.returncode is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(self._grace)
                return

    def give_notice(self) -> None:
        """Tells the child that its host will be taken away: see membership/notice.py."""
        if self._child is not None:
            self._child.terminate()

    def close(self) -> None:
        """Gives the port back."""
        if self._held is not None:
            self._held.close()

    def _environ(self, order: Order, rank: int) -> dict[str, str]:
        told = variables_of_peer(order, rank)
        # This process may itself have been started by a peer of another job.
        others = {setting.name for setting in environment.settings() if setting.internal}
        kept = set(os.environ) - others - {"KUNGFU_SECRET_FILE"}
        mine = {**{name: os.environ[name] for name in kept}, **told}
        return {**mine, **core_shares.shared_by(int(told["LOCAL_WORLD_SIZE"]), mine)}

    @contextlib.contextmanager
    def _started(
        self, environ: Mapping[str, str], files: tuple[int, ...], rows: int | None
    ) -> Iterator[subprocess.Popen[bytes]]:
        command = programs.command("kungfu_tf.engines.child", [os.getpid(), *files])
        with subprocess.Popen(
            command,
            env={"PYTHONUNBUFFERED": "1", **environ},
            stdin=subprocess.DEVNULL,
            pass_fds=files if rows is None else (*files, rows),
            start_new_session=True,
        ) as child:
            self._child = child
            if self._is_stopped:
                self.stop()
            yield child
