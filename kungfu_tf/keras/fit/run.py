"""`fit`, which stands before Keras' own once that is patched (`keras/patches.py`).

For a model that is trained without us, and in a process that is alone, it does what Keras' does.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from kungfu_tf import context, errors, peer
from kungfu_tf.context import batch_factor
from kungfu_tf.context.running_fit import RunningFit
from kungfu_tf.keras.fit import (
    agreement,
    callbacks,
    executions,
    given_callbacks,
    misuse_warnings,
    one_at_a_time,
    printing,
)
from kungfu_tf.keras.fit.call import Fit, current
from kungfu_tf.membership import failing_together
from kungfu_tf.replicas import first_step, randomness
from kungfu_tf.upstream import generations


def fit(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    """Keras' method, within what all peers need to train the model together."""
    call = inspect.signature(original).bind(model, *args, **kwargs)
    call.apply_defaults()
    given = given_callbacks.as_list(call.arguments["callbacks"])
    if given_callbacks.monitors_first(given) != given:
        given = call.arguments["callbacks"] = given_callbacks.monitors_first(given)
    fit = Fit.of(model, call.arguments["x"], given)
    if not fit.is_shared and not given_callbacks.has_any_of_ours(given):
        misuse_warnings.warn_if_not_wrapped(model)
    around = _shared(fit, call.arguments, given) if fit.is_shared else contextlib.nullcontext()
    seen: RunningFit | None = fit if fit.is_shared or not peer.is_single_process() else None
    with around, _put_back(fit), context.within(fit=seen, elastic_run=None):
        return original(*call.args, **call.kwargs)


@contextlib.contextmanager
def _shared(fit: Fit, arguments: dict[str, Any], given: list[Any]) -> Iterator[None]:
    """Within it all peers train the model. They have compared the arguments, which then change.

    Args:
        fit: The call.
        arguments: Of Keras' method, by name; this peer's callbacks and verbosity take the place of
            those that the program gave.
        given: The callbacks that the program gave.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(one_at_a_time.in_this_thread())
        stops_early = _agree(fit, arguments, given)
        stack.enter_context(failing_together.together())
        misuse_warnings.warn_of_sums(fit.model)
        arguments["callbacks"] = callbacks.arranged(fit, given, stops_early)
        arguments["verbose"] = printing.verbosity(arguments["verbose"])
        stack.enter_context(randomness.of_this_peer())
        stack.enter_context(fit.average)
        stack.enter_context(fit.background_iterators)
        stack.enter_context(printing.quiet(given))
        yield


def _agree(fit: Fit, arguments: dict[str, Any], given: list[Any]) -> bool:
    """The peers' first meeting. Returns whether some peer's training may stop after any batch."""
    if fit.elastic_run is None and peer.joining():
        raise errors.FailedPreconditionError(
            "fit: this peer has come to a job that trains already, and was not taken in. "
            "Train with kungfu_tf.elastic.fit(model, ...), or call kungfu_tf.resize() before"
        )
    for algorithm in generations.algorithms_of_model(fit.model):
        algorithm.before_training()
    return agreement.check(
        fit.model,
        arguments,
        check_every=given_callbacks.check_every(given),
        policies=given_callbacks.kinds_of_policies(given),
        may_stop_early=given_callbacks.may_stop_early(given),
    )


@contextlib.contextmanager
def _put_back(fit: Fit) -> Iterator[None]:
    """Afterwards the model has the train step that it had; and its function, if it is in a fit."""
    model = fit.model
    outer, step = current(), vars(model).get("train_step")
    function = getattr(model, "train_function", None)
    try:
        yield
    finally:
        first_step.forget(model)
        if fit.data is not None and fit.data.sizes is not None:
            batch_factor.factor.get().assign(1.0)
        if vars(model).pop("train_step", None) is not None and step is not None:
            vars(model)["train_step"] = step
        if outer is not None and outer.model is model:
            model.train_function = function
        executions.put_back(fit)
