"""`evaluate` and `predict`: a program calls them on any peers, and `fit` on all of them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

from kungfu_tf import context
from kungfu_tf.keras.fit import loss_means, printing
from kungfu_tf.keras.fit.call import current
from kungfu_tf.replicas.average import average_variables
from kungfu_tf.upstream import generations


def evaluate(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    """Keras' method: for all peers if `fit` calls it, else for this peer alone."""
    is_of_fit = kwargs.get("_use_cached_eval_dataset", False)
    fit = current() if is_of_fit else None
    is_average = fit is not None and fit.model is model and fit.differs
    average = average_variables(model) if is_average else contextlib.nullcontext()
    is_of_all = fit is not None and fit.model is model and fit.averages
    validation = loss_means.validating(model) if is_of_all else contextlib.nullcontext()
    with context.within(fit=fit, elastic_run=None), average, validation:
        return _quietly(original, model, args, kwargs)


def predict(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    """Keras' method, which is always the work of one peer: no `fit` is around it."""
    with context.within(fit=None, elastic_run=None):
        return _quietly(original, model, args, kwargs)


def _quietly(original: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
    if not generations.algorithms_of_model(model):
        return original(model, *args, **kwargs)
    call = inspect.signature(original).bind(model, *args, **kwargs)
    call.apply_defaults()
    call.arguments["verbose"] = printing.verbosity(call.arguments["verbose"])
    return original(*call.args, **call.kwargs)
