"""Makes the pictures of docs/assets/: `make docs-screenshots`.

A real job of two peers trains (docs/tools/monitored.py). Its output, its TensorBoard and a
Prometheus that asks it are shown in a headless Chromium. All servers listen on this host only.
"""

from __future__ import annotations

import contextlib
import html
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from docs.tools import chromium, images, pages

ROOT = pages.DOCS.parent
ASSETS = pages.DOCS / "assets"
MOST_BYTES = 150_000
SECONDS = 600  # for the job, and for a server

_TERMINAL = """<!doctype html><style>
body {{ margin: 0; padding: 16px; background: #1e1e2e; color: #e6e6f0; font: 14px/1.5 monospace }}
pre {{ margin: 0; white-space: pre-wrap }} b {{ color: #a6e3a1 }}
</style><pre><b>$ {command}</b>\n{output}</pre>"""
_PROMETHEUS = """global: {{ scrape_interval: 1s }}
scrape_configs:
  - job_name: kungfu
    static_configs: [{{ targets: [{targets}] }}]
"""
_QUERY = "rate(kungfu_step_seconds_count[10s])"


def main() -> int:
    """Makes them. Returns the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images.write(folder / ".keras" / "datasets" / "fashion-mnist")
        port, prometheus, tensorboard = (_free_port() for _ in range(3))
        with _running(_prometheus(folder, prometheus, [port, port + 1]), folder):
            began = time.monotonic()
            output = _train(folder, port)
            graph = _graph(prometheus, time.monotonic() - began)
            _shoot("prometheus.png", graph, (1100, 800), folder)
        _shoot_text("progress.png", "kungfu-run -np 2 python train.py", output, folder)
        with _running(_tensorboard(tensorboard), folder):
            address = f"http://127.0.0.1:{tensorboard}"
            _wait_for(f"{address}/data/runs", "rank1")
            _shoot("tensorboard.png", f"{address}/?tagFilter=step_time", (1100, 800), folder)
    large = [f for f in ASSETS.glob("*.png") if f.stat().st_size > MOST_BYTES]
    print("".join(f"{file.name} is larger than {MOST_BYTES} bytes\n" for file in large), end="")
    return 1 if large else 0


def _train(folder: Path, port: int) -> str:
    """What kungfu-run prints."""
    job = ["-m", "kungfu_tf.launcher", "-np", "2", sys.executable, "-m", "docs.tools.monitored"]
    result = subprocess.run(
        [sys.executable, *job, "logs", str(port)],
        cwd=folder,
        env=_environ(folder),
        timeout=SECONDS,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return result.stdout


def _environ(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # Data are sent, as between hosts, and not only read where they lie.
    given = {"TF_CPP_MIN_LOG_LEVEL": "3", "KUNGFU_BIND_TO": "none", "KUNGFU_DIRECT": "off"}
    return {**os.environ, **given, "HOME": str(folder), "PATH": path, "PYTHONPATH": str(ROOT)}


def _prometheus(folder: Path, port: int, targets: Sequence[int]) -> list[str]:
    config = folder / "prometheus.yml"
    names = ", ".join(f'"127.0.0.1:{target}"' for target in targets)
    config.write_text(_PROMETHEUS.format(targets=names))
    return [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]


def _tensorboard(port: int) -> list[str]:
    return ["tensorboard", "--logdir", "logs", "--port", str(port), "--host", "127.0.0.1"]


def _wait_for(address: str, text: str) -> None:
    """Waits until what is there contains a text."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(address) as answer:
            if text in answer.read().decode():
                return
        time.sleep(0.5)
    raise TimeoutError(f"{address} does not have {text}")


def _graph(port: int, seconds: float) -> str:
    """The address of a graph over the last seconds."""
    span = f"{seconds:.0f}s"
    query = urllib.parse.urlencode({"g0.expr": _QUERY, "g0.tab": 0, "g0.range_input": span})
    return f"http://127.0.0.1:{port}/graph?{query}"


@contextlib.contextmanager
def _running(command: Sequence[str], folder: Path) -> Iterator[None]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=_environ(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _shoot_text(name: str, command: str, output: str, folder: Path) -> None:
    page = folder / "terminal.html"
    page.write_text(_TERMINAL.format(command=html.escape(command), output=html.escape(output)))
    lines = output.count("\n") + sum(len(line) // 115 for line in output.splitlines())
    _shoot(name, page.as_uri(), (1000, 21 * lines + 70), folder)


def _shoot(name: str, address: str, size: tuple[int, int], folder: Path) -> None:
    width, height = size
    options = [
        f"--screenshot={ASSETS / name}",
        f"--window-size={width},{height}",
        "--virtual-time-budget=60000",
    ]
    browser = [*chromium.command(folder / "chromium"), *options, address]
    subprocess.run(browser, check=True, timeout=120, stderr=subprocess.PIPE)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


if __name__ == "__main__":
    missing = [name for name in (chromium.NAME, "prometheus") if not shutil.which(name)]
    if missing:
        sys.exit(f"Debian's packages are needed: apt-get install {' '.join(missing)}")
    sys.exit(main())
