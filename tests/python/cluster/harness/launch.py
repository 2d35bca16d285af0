"""A running job, seen from pytest."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import kungfu_tf
from harness import warm
from harness.channel import Channel, Closed
from harness.collect import Case, Launch

START_TIMEOUT = 150.0
END_TIMEOUT = 150.0  # TensorFlow may take a minute to destroy an iterator
SHOWN_OUTPUT = 12_000

RUNNER = Path(__file__).with_name("runner.py")
SHARED = Path(__file__).parents[1] / "shared"


class CaseFailed(Exception):
    """What pytest shows of a case that failed."""


def environment(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """pytest's own, with what makes many peers on a small machine well-behaved, and `changes`."""
    result = {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_NUM_INTEROP_THREADS": "2",
        "TF_NUM_INTRAOP_THREADS": "1",
        "KUNGFU_COLLECTIVE_TIMEOUT": "90",
        "PYTHONFAULTHANDLER": "1",
        **os.environ,
    }
    package = str(Path(kungfu_tf.__file__).resolve().parents[1])
    paths = [package, str(SHARED), result.get("PYTHONPATH")]
    result["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    for name, value in (changes or {}).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


class RunningJob:
    """The peers of one job, ready to run cases of any module.

    Raises:
        CaseFailed: they did not come up.
    """

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._directory = Path(tempfile.mkdtemp(prefix="kungfu-cases-"))
        self._output = (self._directory / "output").open("w+b")
        self._channels: dict[int, Channel] = {}
        self._pids: list[int] = []
        env = environment(launch.env)
        python = [sys.executable] if launch.alone else warm.python(env)
        command = [
            *[sys.executable, "-m", "kungfu_tf.launcher", "-np", str(launch.np), *launch.flags],
            *[*python, str(RUNNER), str(self._hub)],
        ]
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(self._hub))
            listener.listen(launch.np)
            self._process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._gather(listener)
            except CaseFailed as error:
                raise self._failure(str(error)) from error
            except BaseException:
                self._kill()
                raise

    @property
    def _hub(self) -> Path:
        return self._directory / "hub"

    def _gather(self, listener: socket.socket) -> None:
        """Waits until all peers have said their ranks."""
        deadline = time.monotonic() + START_TIMEOUT
        connections = []
        while len(connections) < self.launch.np:
            listener.settimeout(1.0)
            with contextlib.suppress(TimeoutError):
                connections.append(Channel(listener.accept()[0]))
            if self._process.poll() is not None:
                raise CaseFailed("the job ended at once")
            if time.monotonic() > deadline:
                raise CaseFailed(f"{len(connections)} of {self.launch.np} peers came")
        for channel in connections:
            try:
                hello = channel.receive(max(1.0, deadline - time.monotonic()))
            except (Closed, TimeoutError) as error:
                raise CaseFailed(f"a peer did not start: {error!r}") from error
            self._channels[hello["rank"]] = channel
            self._pids.append(hello["pid"])
        if sorted(self._channels) != list(range(self.launch.np)):
            raise CaseFailed(f"the peers' ranks are {sorted(self._channels)}")

    def run(self, case: Case) -> str | None:
        """Runs `case` on all peers.

        Returns:
            Why it was skipped, if it was.

        Raises:
            CaseFailed: with the traceback of each rank where it failed.
        """
        deadline = time.monotonic() + case.timeout
        request = {
            "path": str(case.module),
            "function": case.function,
            "arguments": case.arguments,
            "timeout": case.timeout,
        }
        failures = []
        skips = {}
        for rank, channel in self._channels.items():
            try:
                channel.send(request, END_TIMEOUT)
            except Closed:
                failures.append(f"rank {rank} has ended")
        for rank, channel in sorted(self._channels.items()):
            try:
                reply = channel.receive(max(0.001, deadline - time.monotonic()))
                if "failure" in reply:
                    failures.append(f"rank {rank}:\n{reply['failure']}")
                if "skipped" in reply:
                    skips[rank] = reply["skipped"]
            except TimeoutError:
                failures.append(f"rank {rank}: no result after {case.timeout} s")
            except Closed:
                failures.append(f"rank {rank} ended in the middle of it")
        if 0 < len(skips) < len(self._channels):
            failures.append(f"skipped on some peers only: {skips}")
        if failures:
            raise self._failure("\n".join(failures))
        return skips.get(0)

    def close(self) -> None:
        """Ends the job.

        Raises:
            CaseFailed: it did not end with code 0.
        """
        for channel in self._channels.values():
            channel.close()
        try:
            code = self._process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            for pid in self._pids:  # each shows where its threads are
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)
            raise self._failure("the job did not end after its last case") from None
        if code != 0:
            raise self._failure(f"the job ended with code {code}")
        self._clean()

    def _failure(self, what: str) -> CaseFailed:
        """Ends the job; the error to raise shows its last output."""
        self._kill()
        self._output.seek(0)
        output = self._output.read().decode(errors="replace")
        self._clean()
        job = f"the job of {self.launch.np} peers"
        return CaseFailed(f"{what}\n-- output of {job} --\n{output[-SHOWN_OUTPUT:]}")

    def _kill(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
                break
        for channel in self._channels.values():
            channel.close()

    def _clean(self) -> None:
        self._output.close()
        shutil.rmtree(self._directory, ignore_errors=True)
