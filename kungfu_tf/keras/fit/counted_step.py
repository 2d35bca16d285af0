"""A train step that counts its samples, so that gradients are means over those of all peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kungfu_tf.context import batch_factor
from kungfu_tf.context.meets import Meets
from kungfu_tf.data.empty import samples_of, stand_in, step_on
from kungfu_tf.keras.fit import loss_means
from kungfu_tf.keras.fit.call import Fit
from kungfu_tf.keras.fit.even_data import EvenData
from kungfu_tf.replicas import first_step, sample_weights
from kungfu_tf.upstream import generations


def put_into(fit: Fit, data: EvenData) -> None:
    """Gives the model the train step that the data of this call need."""
    model, elastic_run = fit.model, fit.elastic_run
    made_for = getattr(getattr(model, "train_function", None), "kungfu_counts_samples", None)
    # All calls of `fit` in an elastic training use one function.
    fits = elastic_run is not None or (made_for == data.counts and fit.batch_size is None)
    if not fits:
        model.train_function = None  # it was made of another step
    if data.counts:
        vars(model)["train_step"] = _counting_samples(fit, data)


def build_metrics(model: Any, element_spec: Any) -> None:
    """Creates the variables of the metrics, which Keras creates only when it traces a step.

    Our train step reads their values when it is traced.
    """
    made = ("_compile_loss", "_compile_metrics", "compiled_loss", "compiled_metrics")
    parts = [vars(model).get(name) for name in made]
    if model.run_eagerly or all(part is None or part.built for part in parts):
        return
    if generations.has_own_train_step(model):  # whose test step need not be like it
        return
    first_step.trace(model.test_step, element_spec)
    model.reset_metrics()


def _counting_samples(fit: Fit, data: EvenData) -> Callable[[Any], Any]:
    """The model's train step, averaging over samples. An empty batch changes nothing."""
    model, elastic_run, sizes = fit.model, fit.elastic_run, data.sizes
    train_step = getattr(model.train_step, "kungfu_counts", model.train_step)
    if elastic_run is not None:  # whose `total_of` counts
        first, trained, total_of = elastic_run.first_batch_size, None, elastic_run.total_of
    else:
        first, trained = sizes.newest if sizes else 1, data.samples
        asks = fit.meets is not Meets.SOMETIMES
        total_of = sample_weights.total_of if asks else sample_weights.own_total

    def step(batch: Any) -> Any:
        count = samples_of(batch)
        with sample_weights.samples(count, total_of) as total, loss_means.counting(model):
            if trained is not None:
                trained.assign_add(total)
                data.steps.assign_add(tf.cast(total >= 0, tf.int64))  # if there was a batch
            if sizes is not None:
                batch_factor.factor.get().assign(tf.cast(count, tf.float64) / first)
            return step_on(model, count, lambda: train_step(stand_in(batch, count)))

    step.kungfu_counts = train_step  # type: ignore[attr-defined]
    return step
