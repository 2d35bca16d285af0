"""The functions of Keras that are replaced once an optimizer is wrapped or a callback of ours made.

For a model that is trained without us, and in a process that is alone, they do what they did.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from kungfu_tf import _keras, config, peer
from kungfu_tf.callbacks.metric_average import MetricAverageCallback
from kungfu_tf.fit import agreement, callbacks, metrics

# The model whose own `fit` is running: what its loops do, all peers do.
_fitted: contextvars.ContextVar[Any] = contextvars.ContextVar("fitted", default=None)


def install() -> None:
    """Replaces the functions of the Keras packages that are imported, once."""
    for package in _keras.packages():
        _install(package)


def _install(package: _keras.Package) -> None:
    if package.generation == 3:
        trainer = package.private("backend.tensorflow.trainer").TensorFlowTrainer
        base = package.private("trainers.trainer").Trainer
        _keras.replace(base, "_get_metrics_result_or_logs", _results)
    else:
        trainer = package.private("engine.training").Model
        _keras.replace(trainer, "_validate_and_get_metrics_result", _results)
        _keras.replace(trainer, "_maybe_load_initial_counters_from_ckpt", _first_epoch_and_step)
    _keras.replace(trainer, "fit", _fit)
    _keras.replace(trainer, "evaluate", _evaluate)
    _keras.replace(trainer, "predict", _predict)


def _fit(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    call = inspect.signature(original).bind(model, *args, **kwargs)
    call.apply_defaults()
    given = callbacks.as_list(call.arguments["callbacks"])
    is_shared = _is_shared(model, given)
    if is_shared:
        stops_early = agreement.check(call.arguments, callbacks.may_stop_early(given))
        call.arguments["callbacks"] = callbacks.arranged(model, given, stops_early)
        call.arguments["verbose"] = _verbosity(call.arguments["verbose"])
    averages = is_shared or any(isinstance(c, MetricAverageCallback) for c in given)
    with _fitting(model if averages and not peer.alone() else None):
        return original(*call.args, **call.kwargs)


def _evaluate(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    """`fit` asks for its own evaluation; any other may be of one peer alone."""
    is_of_fit = kwargs.get("_use_cached_eval_dataset", False)
    with _fitting(_fitted.get() if is_of_fit else None):
        return _quietly(original, model, args, kwargs)


def _predict(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    return _quietly(original, model, args, kwargs)


def _results(original: Callable[..., Any], model: Any, logs: Any) -> Any:
    """The metrics' results when a loop has ended."""
    if _fitted.get() is not model:
        return original(model, logs)
    metrics.sum_states(model.metrics)
    results = original(model, logs)
    return metrics.averaged(logs) if results is logs else results


def _first_epoch_and_step(original: Callable[..., Any], model: Any, *args: Any) -> Any:
    """Keras 2: where training begins, which BackupAndRestore knows on rank 0 only."""
    counters = original(model, *args)
    return counters if _fitted.get() is not model else tuple(agreement.of_root(counters))


def _is_shared(model: Any, given: list[Any]) -> bool:
    if peer.alone():
        return False
    is_custom = callbacks.has_ours(given) and _keras.has_own_train_step(model)
    return is_custom or bool(_keras.algorithms_of_model(model))


@contextlib.contextmanager
def _fitting(model: Any) -> Iterator[None]:
    token = _fitted.set(model)
    try:
        yield
    finally:
        _fitted.reset(token)


def _quietly(original: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
    if not _keras.algorithms_of_model(model):
        return original(model, *args, **kwargs)
    call = inspect.signature(original).bind(model, *args, **kwargs)
    call.apply_defaults()
    call.arguments["verbose"] = _verbosity(call.arguments["verbose"])
    return original(*call.args, **call.kwargs)


def _verbosity(asked: Any) -> Any:
    """Rank 0 prints for all."""
    return asked if peer.is_root() or config.VERBOSE.get() == "all" else 0
