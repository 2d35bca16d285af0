"""Synchronous SGD that also measures the gradients it exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import context, ops, peer
from kungfu_tf.context import graph_state
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.exchange.measured_norms import Norms
from kungfu_tf.ops.gradient_values import tied
from kungfu_tf.ops.noise_scale import warn_alone
from kungfu_tf.optimizers.sync_sgd import SynchronousSGD
from kungfu_tf.replicas import sample_weights


def refuse_codec(optimizer: str, compression: Any) -> None:
    """Raises a ValueError if a monitor is given a codec.

    Args:
        optimizer: The name of the monitor.
        compression: The argument of that name.
    """
    if compression is not None:
        raise ValueError(
            f"{optimizer}: compression cannot be: what a codec leaves of the gradients would be "
            "measured. Leave it away, or take SynchronousSGDOptimizer(compression=...)"
        )


class MonitoredSGD(SynchronousSGD):
    """g ← mean over peers of g; every `interval`-th step publishes a measurement.

    The mean over the peers of |g|², and |mean g|², are measured where the gradients are reduced,
    while they are at hand. A step of a single peer is not measured, nor is one in which the peers'
    batches differ in size. No peer measures if one of them does not.

    Args:
        what: The name of the metric.
        interval: How often to measure, in steps.
    """

    def __init__(self, what: str, interval: int) -> None:
        super().__init__()
        if not isinstance(interval, int):
            raise TypeError(f"monitor_interval is a number of steps, not {interval!r}")
        if interval <= 0:
            raise ValueError(f"monitor_interval must be positive, not {interval}")
        self.what = what
        self.interval = interval
        self._published = graph_state.State(lambda: _published(what))
        self._steps = graph_state.State(lambda: graph_state.variable(-1, tf.int64, f"{what}/steps"))

    @property
    def metrics(self) -> dict[str, Any]:
        """The newest value, which is the same on all peers."""
        return {self.what: self._published.get()}

    @property
    def variables(self) -> Sequence[Any]:
        """The published value and the step count, by which all peers measure in the same steps."""
        return [self._published.get(), self._steps.get()]

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns the means, as S-SGD does."""
        if peer.is_single_process() or (peer.size() == 1 and not peer.joining()):
            warn_alone(self.what)
        if peer.is_single_process() or all(g is None for g in gradients):
            return super().gradients(gradients, variables, step=step)
        norms = Norms(self._is_due())
        means = mean_gradients(
            gradients,
            variables,
            bucket_bytes=self.bucket_bytes,
            name=self.exchange,
            step=step,
            measured=norms,
            sums_rows=self.sums_rows,
        )
        scale = tf.cast(context.current().scale, tf.float64)
        own, mean = (norm / tf.square(scale) for norm in norms.totals())
        published = self._published.get()
        value = self.measure(own, mean)
        is_new = tf.math.is_finite(own) & tf.math.is_finite(mean)
        done = published.assign(tf.where(is_new, value, tf.convert_to_tensor(published)))
        return tied(means, [done])

    def measure(self, own: Any, mean: Any) -> Any:
        """The published value, a float32 scalar.

        Args:
            own: Mean over the peers of |g|², a float64 scalar; NaN if this step is not measured.
            mean: |mean over the peers of g|².
        """
        raise NotImplementedError

    def _is_due(self) -> Any:
        """Whether this step is measured, a bool scalar."""
        weight = sample_weights.current()
        can_be = ops.cluster_size() > 1
        if weight is not None:
            can_be &= tf.equal(weight, 1.0)
        if self.interval == 1:
            return can_be
        count = tf.convert_to_tensor(self._steps.get().assign_add(1))
        return can_be & tf.equal(count % self.interval, 0)


def _published(what: str) -> Any:
    """A variable that programs find by its name; the newest optimizer's if there are several."""
    variable = graph_state.variable(float("nan"), tf.float32, what)
    graph_state.shared_by_key()[what] = variable
    return variable
