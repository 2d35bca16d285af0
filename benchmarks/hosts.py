"""Starts a program on several hosts: network namespaces with cables to one switch. For root.

hosts.py [--hosts 2] [--rate RATE] PEERS PROGRAM...

So many processes, an equal part of them on each, by kungfu-run. RATE limits each cable in both
directions, as `tc` has it: 100mbit, 1gbit. Ends with code 0 if all hosts' runners did.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence

BURST, LATENCY = "64kb", "50ms"  # of a limited cable: bytes at once, the longest queue


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def address(number: int) -> str:
    return f"10.77.0.{number + 1}"


def join(switch: str, names: Sequence[str], rate: str | None) -> None:
    """Makes the namespaces, and lays a cable from each host to the switch."""
    for name in (switch, *names):
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("-n", switch, "link", "add", "bridge", "type", "bridge")
    ip("-n", switch, "link", "set", "bridge", "up")
    for number, name in enumerate(names):
        port = f"port{number}"
        cable = ["eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", switch]
        ip("link", "add", *cable)
        ip("-n", switch, "link", "set", port, "master", "bridge", "up")
        ip("-n", name, "address", "add", f"{address(number)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        for namespace, device in ((name, "eth0"), (switch, port)) if rate else ():
            limit(namespace, device, rate)


def limit(namespace: str, device: str, rate: str) -> None:
    """What leaves the device waits in a token bucket."""
    bucket = ["rate", rate, "burst", BURST, "latency", LATENCY]
    command = ["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", *bucket]
    subprocess.run(command, check=True)


@contextlib.contextmanager
def network(hosts: int, rate: str | None = None) -> Iterator[list[str]]:
    """The names of so many hosts that are joined within it."""
    mark = uuid.uuid4().hex[:6]
    switch, *names = (f"kungfu-{mark}-{number}" for number in range(hosts + 1))
    try:
        join(switch, names, rate)
        yield names
    finally:
        for name in (*names, switch):
            subprocess.run(["ip", "netns", "del", name], check=False)


def command_on(name: str, hosts: int, peers: int, program: Sequence[str]) -> list[str]:
    """That which a user would type on a host, the same on each: options of kungfu-run may lead."""
    slots = ",".join(f"{address(number)}:{peers // hosts}" for number in range(hosts))
    job = ["-q", "-np", str(peers), "-H", slots, "-nic", "eth0"]
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", *job]
    return ["ip", "netns", "exec", name, *launcher, *program]


def of_a_job(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of its launchers."""
    return {**environ, "KUNGFU_SECRET": secrets.token_hex(32), "GLOO_SOCKET_IFNAME": "eth0"}


def run(names: Sequence[str], peers: int, program: Sequence[str]) -> int:
    environ = of_a_job(os.environ)
    started = []
    try:
        for name in names:
            command = command_on(name, len(names), peers, program)
            started.append(subprocess.Popen(command, env=environ))
        return max(abs(one.wait()) for one in started)
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--rate")
    parser.add_argument("peers", type=int)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with network(options.hosts, options.rate) as names:
        code = run(names, options.peers, options.program)
    sys.exit(code)


if __name__ == "__main__":
    main()
