"""A real etcd of one member, which may end and come again with its data."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import ports
from tests.waiting import until

USER, PASSWORD = "root", "short"


class EtcdServer:
    """An etcd that is running.

    Args:
        folder: Where it keeps its data.
        address: Where it listens.
        tls: Whether it speaks TLS, with a certificate that it makes itself.
        through: The command that starts it, if it does not start by itself.
    """

    def __init__(
        self,
        folder: Path,
        *,
        address: str = "127.0.0.1",
        tls: bool = False,
        through: tuple[str, ...] = (),
    ) -> None:
        self._folder = folder
        self._tls = tls
        self._through = through
        self.port, of_members = ports.take(2)
        self.place = f"{address}:{self.port}"
        self.base = f"http{'s' if tls else ''}://{self.place}"
        peers = f"http://{address}:{of_members}"
        self._words = [
            *("etcd", "--name", "one", "--data-dir", str(folder), "--log-level", "error"),
            *("--listen-client-urls", self.base, "--advertise-client-urls", self.base),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"one={peers}", *(["--auto-tls"] if tls else [])),
            # Alone it need not wait for others, nor hash passwords for long.
            *("--heartbeat-interval", "10", "--election-timeout", "100", "--bcrypt-cost", "4"),
        ]
        self.start()

    @property
    def authority(self) -> Path:
        """The certificate, which is its own authority."""
        return self._folder / "fixtures" / "client" / "cert.pem"

    def start(self) -> None:
        with open(self._folder / "log", "ab") as log:
            self.process = subprocess.Popen([*self._through, *self._words], stdout=log, stderr=log)
        until(self._is_well, lambda: (self._folder / "log").read_text()[-2000:])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def call(self, path: str, body: Any, token: str | None = None) -> Any:
        """Asks its gateway."""
        headers = {} if token is None else {"Authorization": token}
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30, context=self._context()) as answer:
            return json.load(answer)

    def demand_a_password(self) -> None:
        """From now on only USER is served."""
        self.call("/v3/auth/user/add", {"name": USER, "password": PASSWORD})
        self.call("/v3/auth/user/grant", {"user": USER, "role": "root"})
        self.call("/v3/auth/enable", {})

    def _is_well(self) -> bool:
        assert self.process.poll() is None, (self._folder / "log").read_text()[-2000:]
        if self._through:  # it is in a network of its own
            ask = f"import urllib.request; urllib.request.urlopen('{self.base}/version', timeout=5)"
            command = [*self._through, sys.executable, "-I", "-c", ask]
            return subprocess.run(command, capture_output=True).returncode == 0
        with contextlib.suppress(OSError):
            return bool(self.call("/v3/maintenance/status", {}))
        return False

    def _context(self) -> ssl.SSLContext | None:
        if not self._tls:
            return None
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


@contextlib.contextmanager
def running(folder: Path, **options: Any) -> Iterator[EtcdServer]:
    """It runs within this; without etcd the test is skipped."""
    if shutil.which("etcd") is None:
        pytest.skip("etcd is not installed: Debian has it in etcd-server")
    os.chmod(folder, 0o700)
    server = EtcdServer(folder, **options)
    try:
        yield server
    finally:
        server.kill()
