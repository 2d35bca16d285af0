"""Forks a process for each program that is to run; __init__.py tells how.

python server.py DESCRIPTOR: of a socket that listens. It ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import types
from pathlib import Path
from typing import Any, NoReturn

# Variables that nothing reads while it is imported: programs need not have the same.
READ_LATER = (
    *("KUNGFU_", "FASHION_MNIST_", "HOME", "PYTEST_", "TF_CONFIG", "TF_NUM_", "TMPDIR"),
    *("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_"),
    *("JOB_COMPLETION_INDEX", "KERAS_DISTRIBUTION_", "SKYPILOT_"),
    *("ENVIRONMENT", "HFI_", "HOSTNAME", "LD_LIBRARY_PATH", "PATH", "PWD"),
    *("HWLOC_", "IPATH_", "OMPI_", "OPAL_", "ORTE_", "PMI", "SLURM", "SRUN_", "MPI_"),
)


def main() -> None:
    given = dict(os.environ)
    import numpy as np
    import tensorflow as tf

    tf.keras.layers.Layer  # noqa: B018 (only now Keras is imported)
    gc.freeze()
    listener = socket.socket(fileno=int(sys.argv[1]))
    while True:
        ready, _, _ = select.select([sys.stdin, listener], [], [])
        with contextlib.suppress(ChildProcessError):  # there is none
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if sys.stdin in ready:
            return
        connection, _ = listener.accept()
        threads = os.listdir("/proc/self/task")
        assert len(threads) == 1, f"a process of {len(threads)} threads cannot be forked"
        if os.fork() == 0:
            listener.close()
            request = look_after(connection)
            np.random.seed()
            take_over(request["environ"], given)
            run(request["arguments"], request["directory"], request["cores"])
            return
        connection.close()


def look_after(connection: socket.socket) -> dict[str, Any]:
    """Returns the request in the process that is to run the program. Another one stays for it."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
    with connection:
        request: dict[str, Any] = json.loads(connection.makefile().readline())
        pid = os.fork()
        if pid > 0:
            report(pid, connection)
        os.setsid()
        connection.sendall(b"%d\n" % os.getpid())
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
        os.close(descriptor)
    return request


def report(pid: int, connection: socket.socket) -> NoReturn:
    """Tells a start how its program has ended. If the start ends first, so does the program."""
    select.select([os.pidfd_open(pid), connection], [], [])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(b"%d\n" % code)
    os._exit(0)


def take_over(environ: dict[str, str], given: dict[str, str]) -> None:
    """Makes `environ` this process' environment. `given`: what the modules were imported with."""
    names = {name for name in {**given, **environ} if not name.startswith(READ_LATER)}
    changed = {name for name in names if given.get(name) != environ.get(name)}
    assert not changed, f"what was imported has read another environment: {sorted(changed)}"
    by_modules = {name: value for name, value in os.environ.items() if name not in given}
    os.environ.clear()
    os.environ.update({**by_modules, **environ})


def run(arguments: list[str], directory: str, cores: list[int]) -> None:
    """As Python runs a program."""
    os.chdir(directory)
    os.sched_setaffinity(0, cores)
    program = Path(arguments[0]).resolve()
    sys.argv = arguments
    sys.path[0] = str(program.parent)
    module = types.ModuleType("__main__")
    module.__file__ = str(program)
    sys.modules["__main__"] = module
    exec(compile(program.read_bytes(), program, "exec"), vars(module))


if __name__ == "__main__":
    main()
