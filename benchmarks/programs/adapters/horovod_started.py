"""Horovod over Gloo in processes that kungfu-run has started, on one host or several."""

from __future__ import annotations

import collections
import ctypes
import os
import socket
import threading

import horovod.tensorflow as hvd
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

from adapters import started


def init() -> None:
    """Rank 0 tells the others who takes part, as horovodrun does."""
    peers = collections.Counter(
        peer.rsplit(":", 1)[0] for peer in os.environ["KUNGFU_PEERS"].split(",")
    )
    places = parse_hosts(",".join(f"{host}:{count}" for host, count in peers.items()))
    plan = get_host_assignments(places, started.size())
    address, port = started.first()
    if started.rank() == 0:
        server = RendezvousHTTPServer((address, port), RendezvousHandler, 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.init(plan)
    mine = plan[started.rank()]
    _call_host(mine.hostname)
    os.environ |= {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": os.environ["GLOO_SOCKET_IFNAME"],
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_HOSTNAME": mine.hostname,
        **{
            f"HOROVOD_{name.upper()}": str(getattr(mine, name))
            for name in ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
        },
    }
    hvd.init()


def _call_host(address: str) -> None:
    """Makes the address this process's name of its host. For root.

    Horovod 0.28.1 listens where that name leads to, whatever interface it is told.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUTS) != 0:
        raise OSError(ctypes.get_errno(), "no namespace for a name of the host")
    socket.sethostname(address)


_CLONE_NEWUTS = 0x04000000  # of sched.h
