"""All kinds of stores of the cluster document, for tests that hold for each of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kungfu_tf.launcher.document import opening
from kungfu_tf.launcher.document.file_store import FileStore
from kungfu_tf.launcher.document.memory_store import MemoryStore
from kungfu_tf.launcher.document.store import Store
from tests import etcd_server, ports
from tests.etcd_server import EtcdServer
from tests.python.launcher.served import TOKEN

DAMAGED = b'{"version": 9, "workers": ["10.0.0.1:10000", "nonsense"]}'


class Memory:
    """The runner's own."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    def open(self) -> Store:
        """A client of the store; another one each time, if there may be several."""
        return self._store


class File:
    """A file, of which one process is in charge."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "cluster.json"
        self.restart()

    def open(self) -> Store:
        return self._store

    def restart(self) -> None:
        """The process that keeps the document ends, and begins anew."""
        self._store = FileStore(self._path)

    def damage(self) -> None:
        """What is kept is no document from now on."""
        self._path.write_bytes(DAMAGED)
        self.restart()


class ConfigServer:
    """`kungfu-config-server`, with a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = ports.take()[0]
        self.start()

    def open(self, secret: str = TOKEN, port: int | None = None) -> Store:
        return opening.open_store(f"http://127.0.0.1:{port or self._port}", secret)

    def start(self) -> None:
        module = "kungfu_tf.launcher.command.kungfu_config_server"
        words = ["-port", str(self._port), "-file", str(self._folder / "cluster.json")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdout=subprocess.PIPE,
            env={**os.environ, "KUNGFU_CONFIG_TOKEN": TOKEN},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline()

    def stop(self) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    def wrong(self) -> Store:
        """A client whose secret is wrong."""
        return self.open("another one, long enough")

    def absent(self) -> Store:
        """A client of a server that is not there."""
        return self.open(port=ports.take()[0])


class EtcdMember:
    """etcd, for users with a password only."""

    def __init__(self, server: EtcdServer) -> None:
        self._server = server
        server.demand_a_password()
        self.restart = server.restart

    def open(self, secret: str = etcd_server.PASSWORD, port: int | None = None) -> Store:
        place = f"127.0.0.1:{port or self._server.port}"
        return opening.open_store(f"etcd://{etcd_server.USER}@{place}/job", secret)

    def damage(self) -> None:
        self.open()._etcd.write("/job/cluster", DAMAGED)

    def wrong(self) -> Store:
        return self.open("another")

    def absent(self) -> Store:
        return self.open(port=ports.take()[0])


@contextlib.contextmanager
def _memory(_folder: Path) -> Iterator[Memory]:
    yield Memory()


@contextlib.contextmanager
def _file(folder: Path) -> Iterator[File]:
    yield File(folder)


@contextlib.contextmanager
def _config_server(folder: Path) -> Iterator[ConfigServer]:
    server = ConfigServer(folder)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def _etcd(folder: Path) -> Iterator[EtcdMember]:
    with etcd_server.running(folder) as server:
        yield EtcdMember(server)


KINDS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Any]]] = {
    "memory": _memory,
    "file": _file,
    "config server": _config_server,
    "etcd": _etcd,
}
