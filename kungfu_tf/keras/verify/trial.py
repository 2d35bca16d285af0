"""One train step of a model, of which nothing stays but what it has computed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import context, peer
from kungfu_tf.replicas import metrics, randomness, sample_weights
from kungfu_tf.replicas.broadcast import values_from_root
from kungfu_tf.replicas.untouched import untouched
from kungfu_tf.upstream import generations
from kungfu_tf.verification import comparison
from kungfu_tf.verification.trial import Moved, Noting, Trial


class Trials:
    """Tries a step as `verification.step.Trials`.

    Args:
        model: What is trained, with equal variables on all peers.
        batch: Of this peer.
        counting: Within what it returns for a model, means count a batch by its samples.
    """

    def __init__(
        self,
        model: Any,
        batch: Any,
        counting: Callable[[Any], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._model = model
        self._batch = batch
        self._counting = counting
        self._layers = list(model._flatten_layers())

    def alone(
        self, batch: Any, replacements: Sequence[Any] | None = None, *, is_redrawn: bool = False
    ) -> Trial:
        """The step of one process."""
        draws = randomness.redrawn(self._layers) if is_redrawn else contextlib.nullcontext()
        counts = replacements is not None
        with (
            self._kept(),
            draws,
            context.within(is_private=True, is_alone=True, counts_peers=counts),
        ):
            self._model.reset_metrics()
            trial = self._step(batch, Noting(replacements))
            trial.metrics = _results(self._model)
        return trial

    def together(self, samples: Sequence[int]) -> Trial:
        """The step of all peers. Every peer calls it."""
        moved = [variable for _, variable in generations.moved_variables(self._model)]
        mine = tf.constant(samples[peer.rank()], tf.int64)
        total, peers = tf.constant(sum(samples), tf.int64), tf.constant(len(samples), tf.int64)
        with (
            self._kept(),
            self._counting(self._model),
            sample_weights.samples(mine, lambda _: (total, peers)),
        ):
            values_from_root(moved, root=0)  # as moving statistics, which are each peer's own
            self._model.reset_metrics()
            trial = self._step(self._batch, Noting())
            metrics.sum_states(self._model.metrics)
            trial.metrics = _results(self._model)
        return trial

    def digits(self, trial: Trial) -> Any:
        """That of the fewest digits in which a layer computes."""
        del trial
        return comparison.digits(self._layers, [])

    def key_of(self, label: str) -> Any:
        """No variable that is compared is each peer's own."""
        del label

    def label_of(self, key: Any) -> str:
        """No variable that is compared is each peer's own."""
        del key
        return ""

    def _kept(self) -> contextlib.AbstractContextManager[None]:
        """Afterwards the model, its optimizers and metrics, and random numbers are as before."""
        state = [*self._model.trainable_variables, *self._optimizer_variables()]
        for algorithm in generations.algorithms_of_model(self._model):
            state += algorithm.variables
        return untouched(self._model, state)

    def _optimizer_variables(self) -> list[Any]:
        optimizers = generations.optimizers_of(self._model)
        return [v for optimizer in optimizers for v in generations.variables_of(optimizer)]

    def _step(self, batch: Any, noting: Noting) -> Trial:
        step = getattr(self._model.train_step, "kungfu_counts", self._model.train_step)

        def take() -> Any:
            noting.forget()  # TensorFlow traces it twice if it creates variables
            with context.within(note_gradients=noting):
                logs = step(batch)
            return noting.trial.given, logs

        variables = [*self._model.trainable_variables, *self._optimizer_variables()]
        before = {id(v): (v, np.asarray(tf.convert_to_tensor(v))) for v in variables}
        if not self._model.run_eagerly:
            take = tf.function(take, autograph=False).get_concrete_function()
        noting.trial.given, logs = take()
        for key, (variable, value) in before.items():
            after = np.asarray(tf.convert_to_tensor(variable))
            if not np.array_equal(value, after):
                name = generations.name_of(variable)
                noting.trial.variables[key] = Moved(name, value, after)
        noting.trial.results = _own_numbers(self._model, logs)
        return noting.trial


def _results(model: Any) -> dict[str, Any]:
    results = {metric.name: metric.result() for metric in model.metrics}
    flat = {
        f"{name}/{key}" if key else name: value
        for name, result in results.items()
        for key, value in (result.items() if isinstance(result, dict) else [("", result)])
    }
    return {name: np.asarray(value) for name, value in flat.items()}


def _own_numbers(model: Any, logs: Any) -> list[Any]:
    """The numbers that a train step returns, without those of metrics."""
    if not isinstance(logs, dict):
        return []
    known = {name.split("/")[0] for name in _results(model)} | set(_results(model))
    known |= {name.split("/")[-1] for name in known}
    own = [np.asarray(value) for name, value in sorted(logs.items()) if name not in known]
    return [value for value in own if value.ndim == 0 and np.issubdtype(value.dtype, np.floating)]
