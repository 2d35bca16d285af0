"""Programs that find TensorFlow imported.

Importing it takes a process 5 s of a core, and most programs of a test do little else. So
`server.py` imports it, and nothing of kungfu_tf. It starts no thread, and forks a process for each
program. `start.py` takes the place of Python in a launcher's command:

    python -IS start.py SERVERS program.py arguments…

It hands over its directory, environment, arguments, cores and descriptors, and then stands for the
program: it passes signals on, and ends as the program ends, which does not outlive it. The program
leads a session of its own. So SIGSTOP and what looks for a process in its tree do not reach it:
what tests these starts Python itself.

There are two servers, and neighbours on a host are of different ones. Sets and addresses then have
no common order on all peers, as they have none in earnest.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.warm.server import READ_LATER

_SERVER = Path(__file__).with_name("server.py")
_START = Path(__file__).with_name("start.py")
_SERVERS = 2


def python(env: Mapping[str, str]) -> list[str]:
    """What a launcher's command has in the place of `sys.executable`.

    Args:
        env: the launcher's environment.
    """
    read = {name: value for name, value in env.items() if not name.startswith(READ_LATER)}
    names = _servers(frozenset(read.items()))
    return [sys.executable, "-IS", str(_START), ",".join(names)]


@functools.cache
def _servers(env: frozenset[tuple[str, str]]) -> list[str]:
    """The names of their sockets. They end with this process."""
    return [_serve({**dict(env), "PYTHONUNBUFFERED": "1"}) for _ in range(_SERVERS)]


def _serve(env: dict[str, str]) -> str:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # the kernel chooses an abstract name
        listener.listen(64)
        stdin, _closes_with_this_process = os.pipe()
        subprocess.Popen(
            [sys.executable, str(_SERVER), str(listener.fileno())],
            env=env,
            stdin=stdin,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
        os.close(stdin)
        name: bytes = listener.getsockname()
        return name[1:].decode()
