"""Measurements while a model trains, for TensorBoard and Prometheus."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context as eager

from kungfu_tf import errors, peer
from kungfu_tf.monitor import measurements
from kungfu_tf.monitor.endpoint import Endpoint, seconds_by_rank
from kungfu_tf.upstream import generations

_NOTHING = measurements.Throughput(0, 0.0, 0.0, 0.0)


class Monitor:
    """Shows measurements while a loop of your own trains.

    `kungfu_tf.callbacks.MonitorCallback` and `kungfu_tf.hooks.MonitorHook` are made of it. Of each
    step it shows, if there is a value:

        noise_scale, gradient_variance    with the optimizer that measures it, the same on all peers

    and of an interval, an epoch for instance, of this peer:

        step_time                         seconds of an average step
        egress_rate, ingress_rate         bytes per second to and from all peers
        throughput_RING, …                bytes per second of the interval's monitored operations,
                                          for each strategy that moved some: `kungfu_tf.calc_stats`
        peer_latency                      with `latencies`: seconds until the slowest peer answers;
                                          infinity if one does not

    With `log_dir` they are written for TensorBoard. With `port` this peer answers Prometheus, as
    long as the monitor is open, under KungFu's names and ours:

        egress_total_bytes, egress_rate_bytes_per_sec       by peer; so ingress_…
        kungfu_strategy_bytes_total                         by strategy: of monitored operations
        kungfu_strategy_seconds_total                       in which there was one; the quotient of
                                                            their rates is the throughput
        kungfu_peer_latency_seconds                         by peer, with `latencies`
        kungfu_step_seconds                                 a summary of the steps' times
        kungfu_collective_seconds                           a histogram of the collectives' times
        kungfu_collective_bytes_total                       what this peer gave to them
        kungfu_membership_version, kungfu_size, kungfu_rank
        kungfu_noise_scale, kungfu_gradient_variance        as above

    An optimizer's values cost reading a number after each step, which then has to be complete.

    Args:
        optimizer: A wrapped optimizer, whose values are shown; None: no such values.
        log_dir: A folder for TensorBoard; each peer writes into a folder of its own in it, `rank2`.
            If peers come and go, so do ranks: then it is `rank2-<uid>`, by the rank at opening and
            `kungfu_tf.uid()` in hexadecimal. Needs TensorBoard.
        port: The port of the first peer of this host; the others take the next ones, by local rank.
            If peers come and go, a peer passes over a port that another still has. 0: any. Needs
            `pip install kungfu_tf[monitor]`.
        address: The address to listen on, by default on this host only.
        token: Requests must carry it: `Authorization: Bearer <token>`. Default:
            KUNGFU_MONITOR_TOKEN, which is not shown to other users as arguments are. It is needed
            if other hosts can ask.
        latencies: Whether to measure the latency of each peer, as `ops.get_peer_latencies` does, at
            each interval's end and at each request of Prometheus. It costs a few small messages,
            and a connection to every peer.

    Attributes:
        steps: How many were made, which is where TensorBoard shows what comes next.

    Raises:
        LibraryError: On entering, if TensorBoard or prometheus-client is missing and needed.
        InvalidArgumentError: If `port` is none; with it, if `address` is not this host's own, and
            there is no token.
        OSError: On entering, if the port is taken; where peers come and go, if the next ones are,
            too.

    Example:

    ```python
    with kf.Monitor(optimizer=optimizer, port=9100) as monitor:
        for epoch in range(10):
            for x, y in dataset:
                with monitor.step():
                    train_step(x, y)
            print(monitor.end_interval())
    ```
    """

    def __init__(
        self,
        *,
        optimizer: Any = None,
        log_dir: str | None = None,
        port: int | None = None,
        address: str = "127.0.0.1",
        token: str | None = None,
        latencies: bool = False,
    ) -> None:
        self.steps = 0
        self._algorithms = [] if optimizer is None else generations.algorithms_of(optimizer)
        self._log_dir = log_dir
        self._latencies = latencies
        self._endpoint = None if port is None else Endpoint(port, address, token, latencies)
        self._writer: Any = None
        self._in_interval = 0  # steps, and how long they took
        self._seconds = 0.0
        self._moved: dict[str, measurements.Throughput] = {}  # before the interval

    @property
    def port(self) -> int | None:
        """The address at which this peer answers Prometheus, while the monitor is open."""
        return self._endpoint.port if self._endpoint else None

    def open(self) -> None:
        """Opens its outputs, and begins an interval.

        Raises:
            LibraryError: If TensorBoard or prometheus-client is missing and needed.
            OSError: If the port is taken.
        """
        self.close()
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._open_writer()
            if self._endpoint:
                self._endpoint.open()
            undo.pop_all()
        self.begin_interval()

    def close(self) -> None:
        """Closes it."""
        if self._writer:
            with eager.eager_mode():
                self._writer.close()
            self._writer = None
        if self._endpoint:
            self._endpoint.close()

    def _open_writer(self) -> None:
        if self._log_dir is None:
            return
        if importlib.util.find_spec("tensorboard") is None:
            raise errors.LibraryError(
                "a monitor's log_dir needs TensorBoard: pip install tensorboard"
            )
        name = f"rank{peer.rank()}"
        if peer.elastic():  # the former peer of this rank may still write
            name += f"-{peer.uid():016x}"
        directory = os.path.join(os.fspath(self._log_dir), name)  # gs://…, too
        with eager.eager_mode():
            self._writer = tf.summary.create_file_writer(directory)

    def __enter__(self) -> Monitor:
        self.open()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Within it one step is made. One that fails counts nothing."""
        began = time.perf_counter()
        yield
        self.add(1, time.perf_counter() - began, values_of(self._algorithms))

    def add(self, steps: int, seconds: float, measured: Mapping[str, float]) -> dict[str, float]:
        """Counts steps.

        Args:
            steps: How many.
            seconds: How long they took.
            measured: The optimizers' measurements in them, NaN where there is none.

        Returns:
            The values that are not NaN.
        """
        self.steps += steps
        self._in_interval += steps
        self._seconds += seconds
        values = {name: value for name, value in measured.items() if not math.isnan(value)}
        if self._endpoint:
            self._endpoint.steps(steps, seconds, values)
        self._write(values)
        return values

    def begin_interval(self) -> None:
        """Begins an interval: forgets the steps before."""
        self._in_interval, self._seconds = 0, 0.0
        self._moved = measurements.throughputs()

    def end_interval(self) -> dict[str, float]:
        """Shows the measurements of an interval; the next one begins.

        Returns:
            The values by their names.
        """
        traffic = measurements.traffic()
        values = {
            "step_time": self._seconds / max(self._in_interval, 1),
            "egress_rate": sum(one.egress_rate for one in traffic),
            "ingress_rate": sum(one.ingress_rate for one in traffic),
            **self._throughputs(),
        }
        if self._latencies and len(traffic) > 1:
            values["peer_latency"] = max(seconds_by_rank())
        self._write(values)
        self.begin_interval()
        return values

    def _throughputs(self) -> dict[str, float]:
        """The throughput of this interval: the windows of `calc_stats` belong to its callers."""
        found = {}
        for name, now in measurements.throughputs().items():
            before = self._moved.get(name, _NOTHING)
            if now.seconds > before.seconds:
                rate = (now.bytes - before.bytes) / (now.seconds - before.seconds)
                found[f"throughput_{name}"] = rate
        return found

    def _write(self, values: Mapping[str, float]) -> None:
        if self._writer:
            with eager.eager_mode(), self._writer.as_default(step=self.steps):
                for name, value in values.items():
                    tf.summary.scalar(name, value)


def values_of(algorithms: Iterable[Any]) -> dict[str, float]:
    """Returns the measurements of the newest step, NaN where there is none. Eager."""
    return {k: float(v.numpy()) for a in algorithms for k, v in a.metrics.items()}
