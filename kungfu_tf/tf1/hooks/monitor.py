"""Measurements while a session trains, for TensorBoard and Prometheus."""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf

from kungfu_tf.context import trained_variables
from kungfu_tf.monitor.monitor import Monitor
from kungfu_tf.replicas import gates
from kungfu_tf.upstream.hook import Hook

v1 = tf.compat.v1


class MonitorHook(Hook):
    """Shows measurements while a session or an Estimator trains.

    It writes the values of `kungfu_tf.Monitor`: those of a step, `noise_scale` and
    `gradient_variance`, after each step, and those of an interval, such as `step_time` and
    `egress_rate`, every `every_steps` steps. `Monitor` describes the values and their names for
    Prometheus, which can read them from the first step to the end of the session.

    The optimizer's values cost reading a number after each step.

    Args:
        every_steps: The number of steps of an interval.
        log_dir: As for `kungfu_tf.Monitor`, like all that follow.
        port: The port at which the first peer of this host answers Prometheus.
        address: The address to listen on.
        token: The token that requests must carry.
        latencies: Whether to measure how long the other peers take to answer.

    Raises:
        ValueError: If `every_steps` is less than 1.
        LibraryError: In the first step, if TensorBoard or prometheus-client is missing and needed.
        InvalidArgumentError: With `port`, if `address` is not this host's own, and there is no
            token.
        OSError: In the first step, if the port is taken.

    Example:

    ```python
    hooks = [kf.hooks.MonitorHook(log_dir="logs", port=9100)]
    with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train_op)
    ```
    """

    def __init__(
        self,
        *,
        every_steps: int = 100,
        log_dir: str | None = None,
        port: int | None = None,
        address: str = "127.0.0.1",
        token: str | None = None,
        latencies: bool = False,
    ) -> None:
        super().__init__()
        if every_steps < 1:
            raise ValueError(f"every_steps must be at least 1, not {every_steps}")
        self._every_steps = every_steps
        self._monitor = Monitor(
            log_dir=log_dir, port=port, address=address, token=token, latencies=latencies
        )

    @property
    def port(self) -> int | None:
        """The port for Prometheus, from the first step to the end of the session."""
        return self._monitor.port

    def begin(self) -> None:
        """Adds operations to the graph, which is complete except for the hooks."""
        self._is_open = False
        self._made = 0
        self._step = v1.train.get_global_step()
        algorithms = trained_variables.algorithms_of(v1.get_default_graph())
        metrics = {name: v for a in algorithms for name, v in a.metrics.items()}
        self._metrics = {name: variable.read_value() for name, variable in metrics.items()}

    def before_run(self, run_context: Any) -> None:
        """Begins a step."""
        self._is_step = gates.is_step(run_context)
        if self._is_step and not self._is_open:
            self._open(run_context.session)
        self._began = time.perf_counter()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends it."""
        del run_values
        if not self._is_step:
            return
        seconds = time.perf_counter() - self._began
        self._monitor.add(1, seconds, run_context.session.run(self._metrics))
        self._made += 1
        if self._made % self._every_steps == 0:
            self._monitor.end_interval()

    def close(self) -> None:
        """Closes its outputs."""
        self._monitor.close()

    def _open(self, session: Any) -> None:
        """Opens the monitor. By now a newcomer has its rank, and rank 0's global step."""
        self._monitor.open()
        self._is_open = True
        if self._step is not None:
            self._monitor.steps = int(session.run(self._step))
