"""What is measured while `fit` runs, for Keras' logs, TensorBoard and Prometheus."""

from __future__ import annotations

import importlib.util
import math
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from kungfu_tf import _keras, _measured, errors, peer
from kungfu_tf._callback import Callback
from kungfu_tf.fit.endpoint import Endpoint, seconds_by_rank

_NOTHING = _measured.Throughput(0, 0.0, 0.0, 0.0)


class MonitorCallback(Callback):
    """Shows what is measured while a model trains.

    In Keras' `logs`, for all other callbacks, after each batch and each epoch, as long as there is
    a value:

        noise_scale, gradient_variance    with the optimizer that measures it, the same on all peers

    and after each epoch, of this peer:

        step_time                         seconds of an average step
        egress_rate, ingress_rate         bytes per second to and from all peers
        throughput_RING, …                bytes per second of the epoch's monitored operations, for
                                          each strategy that moved some: `kungfu_tf.calc_stats`
        peer_latency                      with `latencies`: seconds until the slowest peer answers;
                                          infinity if one does not

    With `log_dir` they are also written for TensorBoard. With `port` this peer answers Prometheus,
    as long as `fit` runs, under KungFu's names and ours:

        egress_total_bytes, egress_rate_bytes_per_sec       by peer; so ingress_…
        kungfu_strategy_bytes_total                         by strategy: of monitored operations
        kungfu_strategy_seconds_total                       in which there was one; the quotient of
                                                            their rates is the throughput
        kungfu_peer_latency_seconds                         by peer, with `latencies`
        kungfu_step_seconds                                 a summary of the steps' times
        kungfu_collective_seconds                           a histogram of the collectives' times
        kungfu_collective_bytes_total                       what this peer gave to them
        kungfu_epoch, kungfu_size, kungfu_rank
        kungfu_noise_scale, kungfu_gradient_variance        as above

    An optimizer's values cost reading a number after each batch, which then has to be complete.

    Args:
        log_dir: Where TensorBoard looks; each peer writes into a folder of its own in it. Needs
            TensorBoard.
        port: Where the first peer of this host listens; the others take the next ones, by local
            rank. 0: any. Needs `pip install kungfu_tf[monitor]`.
        address: Where to listen, default on this host only.
        token: Who asks must send it: `Authorization: Bearer <token>`. Default:
            KUNGFU_MONITOR_TOKEN, which is not shown to other users as arguments are. It must be
            there if others than this host can ask.
        latencies: Whether each peer is asked how long it takes to answer, as
            `ops.get_peer_latencies` does, at each epoch's end and each time that Prometheus asks.
            It costs a few small messages, and a connection to every peer.

    Raises:
        LibraryError: In `fit`, if TensorBoard or prometheus-client is missing and needed.
        InvalidArgumentError: If `address` is not this host's own, and there is no token.
        OSError: In `fit`, if the port is taken.

    Example:

    ```python
    model.fit(dataset, callbacks=[kf.callbacks.MonitorCallback(port=9100)])
    ```
    """

    def __init__(
        self,
        *,
        log_dir: str | None = None,
        port: int | None = None,
        address: str = "127.0.0.1",
        token: str | None = None,
        latencies: bool = False,
    ) -> None:
        super().__init__()
        self._log_dir = log_dir
        self._latencies = latencies
        self._endpoint = None if port is None else Endpoint(port, address, token, latencies)
        self._writer: Any = None
        self._steps = 0  # of this epoch, and how long they took
        self._seconds = 0.0
        self._step = 0  # since training began
        self._began = 0.0
        self._first = 0
        self._moved: dict[str, _measured.Throughput] = {}  # before this epoch

    @property
    def port(self) -> int | None:
        """Where this peer answers Prometheus, while `fit` runs."""
        return self._endpoint.port if self._endpoint else None

    def on_train_begin(self, logs: Any = None) -> None:
        """Opens what it writes to."""
        del logs
        if self._log_dir is not None:
            if importlib.util.find_spec("tensorboard") is None:
                raise errors.LibraryError(
                    "MonitorCallback(log_dir=...) needs TensorBoard: pip install tensorboard"
                )
            directory = Path(self._log_dir) / f"rank{peer.rank()}"
            self._writer = tf.summary.create_file_writer(str(directory))
        if self._endpoint:
            self._endpoint.open()

    def on_train_end(self, logs: Any = None) -> None:
        """Closes it."""
        del logs
        if self._writer:
            self._writer.close()
            self._writer = None
        if self._endpoint:
            self._endpoint.close()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del epoch, logs
        self._steps, self._seconds = 0, 0.0
        self._moved = _measured.throughputs()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        del logs
        self._first, self._began = batch, time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """`batch` is the last of an execution, which may have several steps."""
        seconds, steps = time.perf_counter() - self._began, batch + 1 - self._first
        self._steps, self._seconds = self._steps + steps, self._seconds + seconds
        self._step += steps
        metrics = self._metrics()
        if self._endpoint:
            self._endpoint.steps(steps, seconds, metrics)
        self._show(metrics, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del epoch
        traffic = _measured.traffic()
        mine = {
            "step_time": self._seconds / max(self._steps, 1),
            "egress_rate": sum(one.egress_rate for one in traffic),
            "ingress_rate": sum(one.ingress_rate for one in traffic),
            **self._throughputs(),
        }
        if self._latencies and len(traffic) > 1:
            mine["peer_latency"] = max(seconds_by_rank())
        self._show(mine, logs)
        if logs is not None:
            logs.update(self._metrics())

    def _metrics(self) -> dict[str, float]:
        """What the optimizers have measured."""
        algorithms = _keras.algorithms_of_model(self.model)
        values = {k: float(v.numpy()) for a in algorithms for k, v in a.metrics.items()}
        return {name: value for name, value in values.items() if not math.isnan(value)}

    def _throughputs(self) -> dict[str, float]:
        """Of this epoch: the windows of `calc_stats` are somebody else's."""
        found = {}
        for name, now in _measured.throughputs().items():
            before = self._moved.get(name, _NOTHING)
            if now.seconds > before.seconds:
                rate = (now.bytes - before.bytes) / (now.seconds - before.seconds)
                found[f"throughput_{name}"] = rate
        return found

    def _show(self, values: dict[str, float], logs: Any) -> None:
        if logs is not None:
            logs.update(values)
        if self._writer:
            with self._writer.as_default(step=self._step):
                for name, value in values.items():
                    tf.summary.scalar(name, value)
