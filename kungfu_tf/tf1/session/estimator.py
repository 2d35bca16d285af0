"""The functions that replace Estimator's, once it is patched (`patches.py`)."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from kungfu_tf import context, ops, peer
from kungfu_tf.replicas import gates, sample_weights
from kungfu_tf.tf1.session import checkpoint, ending_agreement, results, sharing
from kungfu_tf.tf1.session.arranging import watch_instead
from kungfu_tf.tf1.session.data import evened
from kungfu_tf.upstream.warn import warn


@dataclasses.dataclass
class _Training:
    """A call of `train` that makes the peers' data equally long.

    Attributes:
        samples: The number of samples in the batch; None as long as it is unknown, or if it is the
            same on all peers.
    """

    samples: Any = None


_TRAIN = "train"  # tf.estimator.ModeKeys.TRAIN


def first_step(original: Callable[..., Any], directory: Any) -> int:
    """The step at which training begins (it may be the last): that of rank 0's checkpoint.

    It finds the hooks in the frame of `train`. Wrapping `train` itself would be too late if the
    first hook is made in the arguments of the call.
    """
    step: int = original(directory)
    call = sys._getframe(2).f_locals
    is_ours = checkpoint.is_trained(directory) or sharing.has_ours(call.get("hooks"))
    if "hooks" in call and is_ours and not sharing.is_private():
        [step] = ending_agreement.from_root([step])
    return step


def train(
    original: Callable[..., Any], estimator: Any, input_fn: Any, hooks: Any, listeners: Any
) -> Any:
    if sharing.is_private() or not sharing.has_ours(hooks):
        return original(estimator, input_fn, hooks, listeners)
    warm_start = estimator._warm_start_settings
    if not peer.is_root():  # they are from a file that perhaps only rank 0 has
        estimator._warm_start_settings = None
    try:
        with context.within(estimator_run=_Training()):
            return original(estimator, input_fn, hooks, listeners)
    finally:
        estimator._warm_start_settings = warm_start


def make_input(original: Callable[..., Any], estimator: Any, input_fn: Any, mode: str) -> Any:
    """Makes features, labels and hooks."""
    training = _current_training()
    if training is None or mode != _TRAIN:
        return original(estimator, input_fn, mode)
    data = estimator._call_input_fn(input_fn, mode)
    if not isinstance(data, tf.data.Dataset):
        return original(estimator, lambda: data, mode)
    data, is_counted = evened(data)
    first, second, hooks = original(estimator, lambda: data, mode)
    if not is_counted:
        return first, second, hooks
    training.samples, batch = first, second
    features, labels = batch if isinstance(batch, (list, tuple)) else (batch, None)
    return features, labels, hooks


def call_model(
    original: Callable[..., Any], estimator: Any, features: Any, labels: Any, mode: str, config: Any
) -> Any:
    """Makes gradients, and the reported loss, means over the samples of all peers."""
    training = _current_training()
    if training is None or training.samples is None or mode != _TRAIN:
        spec = original(estimator, features, labels, mode, config)
        if training is None and mode == _TRAIN and not sharing.is_private():
            _warn_of_missing_hook()
        return spec
    weight = sample_weights.weight_of(training.samples)
    with sample_weights.within(weight):
        spec = original(estimator, features, labels, mode, config)
    loss = ops.all_reduce(
        sample_weights.weighted([spec.loss], weight)[0], op="mean", name="session/loss"
    )
    watch_instead(loss, tf.where(training.samples > 0, spec.loss, tf.zeros_like(spec.loss)))
    return spec._replace(loss=loss)


def _warn_of_missing_hook() -> None:
    """Warns that only gradients are averaged."""
    if peer.is_root() and gates.gates_of(tf.compat.v1.get_default_graph()):
        warn(
            "an Estimator trains with a distributed optimizer and without "
            "BroadcastGlobalVariablesHook: give it to train(hooks=[...]) or TrainSpec. "
            "Without it data of different lengths, losses and metrics are each peer's own"
        )


def evaluate(original: Callable[..., Any], estimator: Any, *args: Any, **kwargs: Any) -> Any:
    with _alone(original, estimator, args, kwargs):
        return original(estimator, *args, **kwargs)


def predict(original: Callable[..., Any], estimator: Any, *args: Any, **kwargs: Any) -> Any:
    predictions = original(estimator, *args, **kwargs)
    while True:
        with _alone(original, estimator, args, kwargs):  # but not while the caller works
            try:
                prediction = next(predictions)
            except StopIteration:
                return
        yield prediction


@contextlib.contextmanager
def _alone(original: Any, estimator: Any, args: Any, kwargs: Any) -> Iterator[None]:
    """Lets this peer work on its own with the trained variables."""
    call = inspect.signature(original).bind(estimator, *args, **kwargs)
    values = checkpoint.variables(estimator.model_dir)
    if values is not None and call.arguments.get("checkpoint_path") is not None:
        values = {}
    with context.within(is_private=True, restored=values, estimator_run=None):
        yield


def privately(original: Callable[..., Any], *args: Any) -> None:
    """Works on its own, in a graph that may contain the operation that trains."""
    with context.within(is_private=True):
        original(*args)


def export(original: Callable[..., Any], estimator: Any, *args: Any, **kwargs: Any) -> Any:
    """Exports on rank 0 alone; the others get None."""
    if checkpoint.variables(estimator.model_dir) is not None:
        return None
    with context.within(is_private=True):
        return original(estimator, *args, **kwargs)


def write(original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Writes the event files of an evaluation, on rank 0 alone."""
    if context.current().restored is None:
        original(*args, **kwargs)


def variable_names(original: Callable[..., Any], estimator: Any) -> Any:
    values = checkpoint.variables(estimator.model_dir)
    return original(estimator) if values is None else list(values)


def variable_value(original: Callable[..., Any], estimator: Any, name: str) -> Any:
    values = checkpoint.variables(estimator.model_dir)
    return original(estimator, name) if values is None else values[name]


def train_and_evaluate(original: Callable[..., Any], executor: Any) -> Any:
    """Returns the results of rank 0's last evaluation on all peers."""
    metrics, exports = original(executor)
    if not sharing.is_private() and checkpoint.is_trained(executor.estimator.model_dir):
        metrics = results.from_root(metrics)
    return metrics, exports


def _current_training() -> _Training | None:
    training: _Training | None = context.current().estimator_run
    return training
