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

    `kungfu_tf.callbacks.MonitorCallback` and `kungfu_tf.hooks.MonitorHook` use it. It shows, for
    each step that has a value:

        noise_scale, gradient_variance    with the optimizer that measures it, the same on all peers

    and for each interval, such as an epoch, on this peer:

        step_time                         mean seconds of a step
        egress_rate, ingress_rate         bytes per second to and from all peers
        throughput_RING, …                bytes per second of the interval's monitored operations,
                                          for each strategy that moved some: `kungfu_tf.calc_stats`
        peer_latency                      with `latencies`: seconds until the slowest peer answers;
                                          infinity if one does not

    With `log_dir` it writes them for TensorBoard. With `port` this peer answers Prometheus while
    the monitor is open, under KungFu's names and ours:

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

    With an optimizer it reads a number after each step, and so waits until the step is complete.

    Args:
        optimizer: A wrapped optimizer whose values are shown; None: there are none.
        log_dir: A folder for TensorBoard, in which each peer has a folder: `rank2`. If peers may
            come and go it is `rank2-<uid>`, with the rank at opening and `kungfu_tf.uid()` in
            hexadecimal. Needs TensorBoard.
        port: The port of the first peer of this host. The others take the next ones, by local rank.
            If peers may come and go, a peer skips a port that another one still has. 0: any port.
            Needs `pip install kungfu_tf[monitor]`.
        address: The address to listen on, by default for this host only.
        token: The token that requests must carry: `Authorization: Bearer <token>`. Default:
            KUNGFU_MONITOR_TOKEN, which other users cannot see, as they can see arguments. It is
            needed if other hosts can ask.
        latencies: Whether to measure the latency of each peer, as `ops.get_peer_latencies` does, at
            the end of each interval and for each request of Prometheus. It costs a few small
            messages, and a connection to every peer.

    Attributes:
        steps: How many steps were made. TensorBoard shows the next values there.

    Raises:
        LibraryError: On entering, if TensorBoard or prometheus-client is missing and needed.
        InvalidArgumentError: If `port` is not valid; or if `address` is not for this host only and
            there is no token.
        OSError: On entering, if the port is taken. If peers may come and go, the next ports are
            tried before.

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
        self._interval_steps = 0
        self._interval_seconds = 0.0
        self._moved: dict[str, measurements.Throughput] = {}  # before the interval

    @property
    def port(self) -> int | None:
        """The port at which this peer answers Prometheus, while the monitor is open."""
        return self._endpoint.port if self._endpoint else None

    def open(self) -> None:
        """Opens the outputs, and begins an interval.

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
        """Closes the outputs."""
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
        """Measures one step, unless it fails."""
        began = time.perf_counter()
        yield
        self.add(1, time.perf_counter() - began, values_of(self._algorithms))

    def add(self, steps: int, seconds: float, measured: Mapping[str, float]) -> dict[str, float]:
        """Counts steps.

        Args:
            steps: How many steps.
            seconds: How long they took together.
            measured: What the optimizers measured in them, NaN where there is no value.

        Returns:
            The values that are not NaN.
        """
        self.steps += steps
        self._interval_steps += steps
        self._interval_seconds += seconds
        values = {name: value for name, value in measured.items() if not math.isnan(value)}
        if self._endpoint:
            self._endpoint.steps(steps, seconds, values)
        self._write(values)
        return values

    def begin_interval(self) -> None:
        """Begins an interval, and forgets earlier steps."""
        self._interval_steps, self._interval_seconds = 0, 0.0
        self._moved = measurements.throughputs()

    def end_interval(self) -> dict[str, float]:
        """Shows the measurements of this interval, and begins the next one.

        Returns:
            The values by their names.
        """
        traffic = measurements.traffic()
        values = {
            "step_time": self._interval_seconds / max(self._interval_steps, 1),
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
        """The throughputs of this interval. (The windows of `calc_stats` belong to its callers.)"""
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
    """What algorithms measured in the newest step, NaN where there is no value. Eager."""
    return {k: float(v.numpy()) for a in algorithms for k, v in a.metrics.items()}
