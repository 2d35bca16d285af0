"""Stands for a program that a server runs; __init__.py tells how.

python -IS start.py SERVERS program.py arguments…
"""

import json
import os
import resource
import signal
import socket
import sys

_PASSED_ON = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGTERM}
_PASSED_ON |= {signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}


def main() -> None:
    servers, *arguments = sys.argv[1:]
    names = servers.split(",")
    port = os.environ.get("KUNGFU_SELF", "").rpartition(":")[2]
    request = {
        "arguments": arguments,
        "directory": os.getcwd(),
        "environ": dict(os.environ),
        "cores": sorted(os.sched_getaffinity(0)),
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("\0" + names[int(port or os.getpid()) % len(names)])
        socket.send_fds(connection, [b"\n"], [0, 1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        answers = connection.makefile("r")
        group = int(answers.readline())
        for number in _PASSED_ON:
            signal.signal(number, lambda number, frame: os.killpg(group, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        code = int(answers.readline())
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
