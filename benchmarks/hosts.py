"""Starts a program on two hosts: network namespaces with a cable between them. For root.

two_hosts.py PEERS PROGRAM...

So many processes, half of them on each, by kungfu-run. Ends with code 0 if all did.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import uuid

HOSTS = ("10.77.0.1", "10.77.0.2")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def join(first: str, second: str) -> None:
    """Makes the namespaces and lays the cable."""
    for name in (first, second):
        ip("netns", "add", name)
    cable = ["eth0", "netns", first, "type", "veth", "peer", "name", "eth0", "netns", second]
    ip("link", "add", *cable)
    for name, address in zip((first, second), HOSTS, strict=True):
        ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            ip("-n", name, "link", "set", device, "up")


def run(names: tuple[str, str], peers: int, program: list[str]) -> int:
    """The same command on each host, as its user would type it there."""
    hosts = ",".join(f"{host}:{peers // len(HOSTS)}" for host in HOSTS)
    job = ["-np", str(peers), "-H", hosts, "-nic", "eth0"]
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-q", *job]
    environ = {**os.environ, "KUNGFU_SECRET": secrets.token_hex(32), "GLOO_SOCKET_IFNAME": "eth0"}
    started = []
    try:
        for name in names:
            command = ["ip", "netns", "exec", name, *launcher, *program]
            started.append(subprocess.Popen(command, env=environ))
        return max(abs(one.wait()) for one in started)
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    mark = uuid.uuid4().hex[:6]
    names = (f"kungfu-a-{mark}", f"kungfu-b-{mark}")
    try:
        join(*names)
        code = run(names, int(sys.argv[1]), sys.argv[2:])
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)
    sys.exit(code)


if __name__ == "__main__":
    main()
