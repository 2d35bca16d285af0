"""One train step, of which nothing stays but what it has computed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from kungfu_tf import context
from kungfu_tf.replicas import metrics, sample_weights
from kungfu_tf.replicas.broadcast import values_from_root
from kungfu_tf.replicas.untouched import untouched
from kungfu_tf.upstream import generations


class Trial(NamedTuple):
    """What a step has computed.

    Attributes:
        gradients: With the name of the variable: what each optimizer got, in its order; None where
            there is none.
        metrics: By name, those of the step's samples.
    """

    gradients: list[tuple[str, Any]]
    metrics: dict[str, Any]


def alone(model: Any, batch: Any) -> Trial:
    """Takes the step of a single process."""
    with _kept(model), context.within(is_private=True):
        model.reset_metrics()
        return Trial(_gradients(model, batch), _results(model))


def together(model: Any, batch: Any, samples: Sequence[int], rank: int) -> Trial:
    """Takes the step of all peers. Every peer calls it.

    Args:
        model: What is trained.
        batch: Of this peer.
        samples: How many samples each peer has.
        rank: Of this peer.
    """
    moved = [variable for _, variable in generations.moved_variables(model)]
    mine, total = tf.constant(samples[rank], tf.int64), tf.constant(sum(samples), tf.int64)
    with _kept(model), sample_weights.samples(mine, lambda _: total):
        values_from_root(moved, root=0)  # as moving statistics, which are each peer's own
        model.reset_metrics()
        gradients = _gradients(model, batch)
        metrics.sum_states(model.metrics)
        return Trial(gradients, _results(model))


def _kept(model: Any) -> contextlib.AbstractContextManager[None]:
    """Afterwards the model, its optimizers and metrics, and the random numbers are as before."""
    trained = list(model.trainable_variables)
    for optimizer in generations.optimizers_of(model):
        trained += generations.variables_of(optimizer)
    for algorithm in generations.algorithms_of_model(model):
        trained += algorithm.variables
    return untouched(model, trained)


def _gradients(model: Any, batch: Any) -> list[tuple[str, Any]]:
    step = getattr(model.train_step, "kungfu_counts", model.train_step)
    names: list[str] = []
    computed: list[Any] = []

    def note(variables: Sequence[Any], gradients: Sequence[Any]) -> None:
        names.extend(generations.name_of(v) for v in variables)
        computed.extend(None if g is None else tf.convert_to_tensor(g) for g in gradients)

    def take() -> list[Any]:
        names.clear()  # TensorFlow traces it twice if it creates variables
        computed.clear()
        with context.within(note_gradients=note):
            step(batch)
        return computed

    values = take() if model.run_eagerly else tf.function(take, autograph=False)()
    return [
        (name, None if value is None else np.asarray(value))
        for name, value in zip(names, values, strict=True)
    ]


def _results(model: Any) -> dict[str, Any]:
    results = {metric.name: metric.result() for metric in model.metrics}
    flat = {
        f"{name}/{key}" if key else name: value
        for name, result in results.items()
        for key, value in (result.items() if isinstance(result, dict) else [("", result)])
    }
    return {name: np.asarray(value) for name, value in flat.items()}
