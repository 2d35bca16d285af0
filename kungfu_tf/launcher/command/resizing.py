"""`kungfu-run -resize N`: asks a running job for another number of peers."""

import dataclasses
import itertools
import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kungfu_tf.launcher.document import opening
from kungfu_tf.launcher.document.store import Conflict, Problem
from kungfu_tf.launcher.options import given_secrets
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.options.plural import plural
from kungfu_tf.launcher.processes import run_directory
from kungfu_tf.launcher.processes.run_directory import RunDirectory

DEADLINE = 10.0
LONGEST_ANSWER = 64 << 10

_ATTEMPTS = 5


class Running(NamedTuple):
    """A job of this user that can change its size, and whose first host this is."""

    directory: RunDirectory
    pid: int
    size: int
    command: str

    def __str__(self) -> str:
        size = plural(self.size, "peer")
        return f"  -job {self.directory.runner}   {size}, pid {self.pid}: {self.command}"


def run(options: Options, environ: Mapping[str, str]) -> str:
    """Returns a text for the user.

    Raises:
        LaunchError: If it is refused.
    """
    assert options.resize is not None
    if options.config_server is not None:
        return _by_server(options.config_server, options.resize, environ)
    return _ask(_find(options.job), options.resize)


def running() -> list[Running]:
    """The running jobs of this user that can change their size."""
    return [job for job in map(_look, run_directory.all_here()) if job is not None]


def _look(directory: RunDirectory) -> Running | None:
    try:
        if os.stat(directory.path).st_uid != os.geteuid():
            return None
        job = json.loads(Path(directory.job).read_bytes())
        size = len(json.loads(Path(directory.cluster).read_bytes())["workers"])
        os.kill(job["pid"], 0)
        return Running(directory, job["pid"], size, " ".join(job["command"])[:100])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # it is ending


def _find(name: str | None) -> Running:
    jobs = running()
    listed = "\n".join(map(str, jobs))
    if name is not None:
        jobs = [job for job in jobs if name in (job.directory.runner, job.directory.path)]
        if not jobs:
            raise LaunchError(f"-job: there is no '{name}' here; there are\n{listed or '  none'}")
    if not jobs:
        raise LaunchError(
            "-resize: no job of this user can change its size here: kungfu-run -w starts one; of"
            " several hosts the first one is asked"
        )
    if len(jobs) > 1:
        raise LaunchError(f"-resize: there are several jobs; say which one:\n{listed}")
    return jobs[0]


def _ask(job: Running, size: int) -> str:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as runner:
            runner.settimeout(DEADLINE)
            runner.connect(job.directory.control)
            runner.sendall(f"resize {size}\n".encode())
            answer = b""
            while not answer.endswith(b"\n") and len(answer) < LONGEST_ANSWER:
                data = runner.recv(LONGEST_ANSWER)
                if not data:
                    break
                answer += data
    except OSError as error:
        raise LaunchError(f"-resize: the runner, pid {job.pid}, does not answer: {error}") from None
    word, _, text = answer.decode(errors="replace").strip().partition(" ")
    if word != "proposed":
        raise LaunchError(f"-resize: {text or 'the job has ended'}")
    return text


def _by_server(url: str, size: int, environ: Mapping[str, str]) -> str:
    secret = given_secrets.of_store(url, given_secrets.config_token(environ, url))
    store = opening.open_store(url, secret)
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            document = store.get()
            store.put(dataclasses.replace(document, workers=_resized(document.workers, size)))
            break
        except Conflict:
            if not attempts_left:  # another writer was faster each time
                raise LaunchError(f"-config-server: {url} changes all the time") from None
        except Problem as problem:
            raise LaunchError(f"-config-server: {url} {problem}") from None
    return f"the document has {plural(size, 'worker')} now; it had {len(document.workers)}"


def _resized(workers: Sequence[str], size: int) -> tuple[str, ...]:
    """The first workers, and as many more as needed, on any host with room."""
    names = workers[:size]
    ports = (f"0.0.0.0:{port}" for port in range(1, 1 << 16))
    more = (name for name in ports if name not in names)
    return (*names, *itertools.islice(more, size - len(names)))
