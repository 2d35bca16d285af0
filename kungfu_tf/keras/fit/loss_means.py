"""Means of one number for each batch, such as its loss, where batches differ in size.

In one process Keras gives each batch the weight 1 in a `Mean` that is told no other weight.
Examples are the mean of an output's loss, if the batch's size is unknown when the step is traced,
and a mean of the program's own. In one process a step has one batch. Here it has one on each peer,
which counts as its gradients do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from kungfu_tf.data.empty import samples_of
from kungfu_tf.replicas import sample_weights
from kungfu_tf.upstream import generations


@contextlib.contextmanager
def counting(model: Any) -> Iterator[None]:
    """Keras 2, whose `Mean` is not patched: within it the means of `model` weigh batches."""
    package = generations.package_of(model)
    is_two = package.generation == 2
    means = [m for m in model.metrics if is_two and type(m) is package.module.metrics.Mean]
    plain = [mean.update_state for mean in means]
    for mean, original in zip(means, plain, strict=True):
        mean.update_state = _weighing(original)
    try:
        yield
    finally:
        for mean, original in zip(means, plain, strict=True):
            mean.update_state = original


@contextlib.contextmanager
def validating(model: Any) -> Iterator[None]:
    """Within it the losses of outputs weigh a batch by its number of samples.

    In Keras 3 that needs another test step, which is traced once for each `compile`.
    """
    if not getattr(getattr(model, "_compile_loss", None), "metrics", None):
        yield
        return
    test_step, test_function = model.test_step, model.test_function

    def step(data: Any) -> Any:
        with sample_weights.within(tf.cast(samples_of(data), tf.float64)):
            return test_step(data)

    compiled, ours = vars(model).get("_kungfu_test_function", (None, None))
    own = vars(model).get("test_step")
    vars(model)["test_step"] = step
    model.test_function = ours if compiled is model._compile_loss else None
    try:
        yield
    finally:
        vars(model)["_kungfu_test_function"] = model._compile_loss, model.test_function
        model.test_function = test_function
        del vars(model)["test_step"]
        if own is not None:
            vars(model)["test_step"] = own


def _weighing(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda values, sample_weight=None: original(values, _weight_of(values, sample_weight))


def update_mean(
    original: Callable[..., Any], mean: Any, values: Any, sample_weight: Any = None
) -> Any:
    """Keras 3: gives a `Mean` the weight of the step in which it is updated."""
    return original(mean, values, _weight_of(values, sample_weight))


def _weight_of(values: Any, given: Any) -> Any:
    is_of_batch = given is None and tf.convert_to_tensor(values).shape.rank == 0
    return sample_weights.current() if is_of_batch else given
