"""The endpoint at which a peer answers Prometheus."""

from __future__ import annotations

import contextlib
import errno
import hmac
import importlib
import ipaddress
import logging
import threading
import wsgiref.simple_server
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context as eager

from kungfu_tf import config, errors, ops, peer
from kungfu_tf.monitor import measurements
from kungfu_tf.monitor.http_server import Handler, Server, Server6

_log = logging.getLogger(__name__)

_LATENCY_SECONDS = 1.0  # that the other peers have to answer
_MOST_PASSED = 64  # ports that a newcomer may find taken by former peers of this host
_LAST_PORT = 65535


class Endpoint:
    """Serves the measurements while it is open.

    Args:
        port: As for `Monitor`, like the rest.
        address: The address to listen on.
        token: The token that requests must carry.
        latencies: Whether each answer includes the peers' latencies, measured for it.

    Raises:
        InvalidArgumentError: If the port is not valid, or other hosts can ask and there is no
            token.
    """

    def __init__(self, port: int, address: str, token: str | None, latencies: bool = False) -> None:
        self._wanted = port
        self._latencies = latencies
        self._address = address
        self._token = config.MONITOR_TOKEN.get() if token is None else token
        if not 0 <= port <= _LAST_PORT:
            raise errors.InvalidArgumentError(
                f"a monitor: a port is a number from 0 to {_LAST_PORT}, not {port}"
            )
        if not self._token and not _is_loopback(address):
            raise errors.InvalidArgumentError(
                f"a monitor: others than this host can ask {address}, so it needs a token: set "
                "KUNGFU_MONITOR_TOKEN"
            )
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._steps = 0
        self._seconds = 0.0
        self._metrics: dict[str, float] = {}

    @property
    def port(self) -> int | None:
        """The port on which it listens; None if it is closed."""
        return self._server.server_port if self._server else None

    def open(self) -> None:
        """Starts to serve in a thread, or restarts if an error has left it open.

        Raises:
            LibraryError: If prometheus-client is missing.
            InvalidArgumentError: If this peer's port would be too high.
            OSError: If the port is taken. If peers may come and go, the next ports are tried
                before.
        """
        try:
            prometheus = importlib.import_module("prometheus_client")
        except ImportError as error:
            raise errors.LibraryError(
                "a monitor's port needs prometheus-client: pip install kungfu_tf[monitor]"
            ) from error
        self.close()
        registry = prometheus.CollectorRegistry()
        registry.register(_Collector(self._families))
        self._server = self._listen(self._guarded(prometheus.make_wsgi_app(registry)))
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="kungfu-monitor", daemon=True
        )
        self._thread.start()
        _log.info("rank %d answers Prometheus at %s:%d", peer.rank(), self._host(), self.port)

    def close(self) -> None:
        """Stops serving."""
        if self._server and self._thread:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
        self._server = self._thread = None

    def steps(self, steps: int, seconds: float, metrics: dict[str, float]) -> None:
        """Adds steps, and what the optimizers measured in them."""
        with self._lock:
            self._steps += steps
            self._seconds += seconds
            self._metrics.update(metrics)

    def _host(self) -> str:
        return f"[{self._address}]" if ":" in self._address else self._address

    def _listen(self, app: Callable[..., Any]) -> Any:
        """Listens on this peer's port, or on a later one if a former peer still has that."""
        port = mine = self._wanted + peer.local_rank() if self._wanted else 0
        if mine > _LAST_PORT:
            raise errors.InvalidArgumentError(
                f"a monitor: of port={self._wanted} the peer of local rank {peer.local_rank()} "
                f"gets port {mine}, and {_LAST_PORT} is the last"
            )
        last = min(mine + _MOST_PASSED, _LAST_PORT) if mine and peer.elastic() else mine
        kind = Server6 if ":" in self._address else Server
        while True:
            try:
                server = wsgiref.simple_server.make_server(
                    self._address, port, app, server_class=kind, handler_class=Handler
                )
            except OSError as error:
                if port >= last or error.errno != errno.EADDRINUSE:
                    where = f"rank {peer.rank()}'s monitor cannot answer at {self._host()}:{port}"
                    raise OSError(error.errno, f"{where}: {error.strerror}") from error
                port += 1
            else:
                if port != mine:
                    _log.warning("port %d is taken: Prometheus is answered at %d", mine, port)
                return server

    def _guarded(self, app: Callable[..., Any]) -> Callable[..., Any]:
        wanted = f"Bearer {self._token}".encode()

        def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
            given = environ.get("HTTP_AUTHORIZATION", "").encode("latin-1")
            if self._token and not hmac.compare_digest(given, wanted):
                start_response("401 Unauthorized", [("WWW-Authenticate", "Bearer")])
                return [b"a bearer token is needed\n"]
            return app(environ, start_response)

        return answer

    def _families(self) -> Iterator[Any]:
        """The metrics for Prometheus, read when it asks."""
        core = importlib.import_module("prometheus_client.core")

        def gauge(name: str, meaning: str, value: float) -> Any:
            return core.GaugeMetricFamily(name, meaning, value=value)

        yield from _traffic_families(core)
        yield from _strategy_families(core)
        if self._latencies:
            yield _latency_family(core)
        latencies = measurements.latencies()
        buckets, total = [], 0
        for bound, count in latencies.counts.items():
            total += count
            buckets.append((f"{bound:g}".replace("inf", "+Inf"), total))
        yield core.HistogramMetricFamily(
            "kungfu_collective_seconds",
            "how long collectives took",
            buckets=buckets,
            sum_value=latencies.seconds,
        )
        yield core.CounterMetricFamily(
            "kungfu_collective_bytes",
            "the bytes of this peer in collectives",
            value=latencies.bytes,
        )
        with self._lock:
            steps, seconds, metrics = self._steps, self._seconds, dict(self._metrics)
        yield core.SummaryMetricFamily(
            "kungfu_step_seconds", "how long steps took", count_value=steps, sum_value=seconds
        )
        yield gauge(
            "kungfu_membership_version",
            "the version of the list of peers",
            peer.membership_version(),
        )
        yield gauge("kungfu_size", "the number of peers", peer.size())
        yield gauge("kungfu_rank", "the rank of this peer", peer.rank())
        for name, value in metrics.items():
            yield gauge(f"kungfu_{name}", f"{name} of the newest step that was measured", value)


class _Collector:
    """The interface that a Prometheus registry calls."""

    def __init__(self, collect: Callable[[], Iterator[Any]]) -> None:
        self.collect = collect

    def describe(self) -> list[Any]:
        """Nothing: the metrics are known only at a request."""
        return []


def _traffic_families(core: Any) -> Iterator[Any]:
    """The traffic under KungFu's names, which lack the suffix of a Prometheus counter."""
    traffic = measurements.traffic()
    for direction, meaning in (("egress", "to"), ("ingress", "from")):
        for field, name, what in (
            ("bytes", f"{direction}_total_bytes", f"bytes {meaning} a peer"),
            ("rate", f"{direction}_rate_bytes_per_sec", f"bytes per second {meaning} a peer"),
        ):
            family = core.UntypedMetricFamily(name, what, labels=["peer", "way"])
            for rank, one in enumerate(traffic):
                for way, flow in one.by_way.items():
                    value = getattr(flow, f"{direction}_{field}")
                    family.add_metric([peer.name_of(rank), way], value)
            yield family


def _strategy_families(core: Any) -> Iterator[Any]:
    of_bytes = core.CounterMetricFamily(
        "kungfu_strategy_bytes", "the bytes of monitored operations", labels=["strategy"]
    )
    of_seconds = core.CounterMetricFamily(
        "kungfu_strategy_seconds", "how long there were monitored operations", labels=["strategy"]
    )
    for name, one in measurements.throughputs().items():
        of_bytes.add_metric([name], one.bytes)
        of_seconds.add_metric([name], one.seconds)
    yield from (of_bytes, of_seconds)


def _latency_family(core: Any) -> Any:
    """Empty in a process whose peer has been shut down."""
    family = core.GaugeMetricFamily(
        "kungfu_peer_latency_seconds", "how long a peer takes to answer", labels=["peer"]
    )
    with contextlib.suppress(tf.errors.FailedPreconditionError):
        for rank, seconds in enumerate(seconds_by_rank()):
            if rank != peer.rank():
                family.add_metric([peer.name_of(rank)], seconds)
    return family


def seconds_by_rank() -> list[float]:
    """The seconds until each peer answers: 0 for this one, infinity after more than a second."""
    with eager.eager_mode():  # also within a session's hook, and in the thread of a request
        seconds: list[float] = ops.get_peer_latencies(timeout=_LATENCY_SECONDS).numpy().tolist()
    return seconds


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
