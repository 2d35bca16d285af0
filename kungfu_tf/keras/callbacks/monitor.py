"""Measurements while `fit` runs, for Keras' logs, TensorBoard and Prometheus."""

from __future__ import annotations

import time
from typing import Any

from kungfu_tf import context
from kungfu_tf.monitor.monitor import Monitor, values_of
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback


class MonitorCallback(Callback):
    """Shows measurements while a model trains.

    The values that `kungfu_tf.Monitor` measures for a step, `noise_scale` and `gradient_variance`,
    are in Keras' `logs` after each batch and each epoch, for all other callbacks. Those of an
    interval, such as `step_time` and `egress_rate`, are there after each epoch. `kungfu_tf.Monitor`
    describes the values, and their names for Prometheus.

    In TensorBoard another `fit` continues at the last step of the previous one. `elastic.fit` is
    shown by the steps of the training, also on a newcomer, and after a backup.

    Args:
        log_dir: As for `kungfu_tf.Monitor`, like the rest.
        port: The port at which the first peer of this host answers Prometheus.
        address: The address to listen on.
        token: The token that requests must carry.
        latencies: Whether to measure how long the other peers take to answer.

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
        self._monitor = Monitor(
            log_dir=log_dir, port=port, address=address, token=token, latencies=latencies
        )
        self._began = 0.0
        self._first = 0
        self._newest: dict[str, float] = {}  # of the optimizers

    @property
    def port(self) -> int | None:
        """The port at which this peer answers Prometheus, while `fit` runs."""
        return self._monitor.port

    def on_train_begin(self, logs: Any = None) -> None:
        """Opens the outputs."""
        del logs
        self._monitor.open()
        fit = context.current().fit
        # All calls of `fit` in an elastic training continue one count.
        if fit is not None and fit.elastic_run is not None:
            self._monitor.steps = fit.elastic_run.all_steps

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the outputs."""
        del logs
        self._monitor.close()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del epoch, logs
        self._monitor.begin_interval()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        del logs
        self._first, self._began = batch, time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """`batch` is the last of an execution, which may have several steps."""
        seconds, steps = time.perf_counter() - self._began, batch + 1 - self._first
        measured = values_of(generations.algorithms_of_model(self.model))
        self._newest = self._monitor.add(steps, seconds, measured)
        if logs is not None:
            logs.update(self._newest)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del epoch
        values = self._monitor.end_interval()
        if logs is not None:
            logs.update({**values, **self._newest})
