"""`fit`, which takes the place of Keras' own once that is patched (`keras/patches.py`).

It calls Keras' `fit`. For a model with a plain optimizer, and in a single process, it adds nothing.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from kungfu_tf import context, errors, groups, peer
from kungfu_tf.context import batch_factor
from kungfu_tf.context.running_fit import RunningFit
from kungfu_tf.keras.fit import (
    agreement,
    callbacks,
    changing_peers,
    executions,
    given_callbacks,
    misuse_warnings,
    one_at_a_time,
    printing,
)
from kungfu_tf.keras.fit.call import Fit, current
from kungfu_tf.membership import failing_together, notice
from kungfu_tf.replicas import first_step, randomness
from kungfu_tf.upstream import generations


def fit(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    """Keras' method, with all that the peers need to train the model together.

    The peers are those of its optimizers' group, if they have one.
    """
    with groups.among(generations.group_of_model(model)):
        return _fit(original, model, *args, **kwargs)


def _fit(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    call = inspect.signature(original).bind(model, *args, **kwargs)
    call.apply_defaults()
    given = given_callbacks.as_list(call.arguments["callbacks"])
    if given_callbacks.monitors_first(given) != given:
        given = call.arguments["callbacks"] = given_callbacks.monitors_first(given)
    fit = Fit.of(model, call.arguments["x"], given, call.arguments["steps_per_epoch"])
    if changing_peers.may_come(fit, call.arguments):
        return changing_peers.train(model, call.arguments)
    if not fit.is_shared and not given_callbacks.has_any_of_ours(given):
        misuse_warnings.warn_if_not_wrapped(model)
    around = _shared(fit, call.arguments, given) if fit.is_shared else contextlib.nullcontext()
    seen: RunningFit | None = fit if fit.is_shared or not peer.is_single_process() else None
    with around, _put_back(fit), context.within(fit=seen, elastic_run=None):
        return original(*call.args, **call.kwargs)


@contextlib.contextmanager
def _shared(fit: Fit, arguments: dict[str, Any], given: list[Any]) -> Iterator[None]:
    """Within it all peers train the model. First they compare their arguments.

    Args:
        fit: The call.
        arguments: The arguments of Keras' method, by name. This peer's callbacks and verbosity take
            the place of the program's.
        given: The callbacks that the program gave.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(one_at_a_time.in_this_thread())
        stops_early = _agree(fit, arguments, given)
        stack.enter_context(failing_together.together())
        fit.notice = stack.enter_context(notice.heeded())
        misuse_warnings.warn_of_sums(fit.model)
        arguments["callbacks"] = callbacks.arranged(
            fit, given, stops_early, verbose=bool(arguments["verbose"])
        )
        arguments["verbose"] = printing.verbosity(arguments["verbose"])
        stack.enter_context(randomness.of_this_peer())
        stack.enter_context(fit.average)
        stack.enter_context(fit.background_iterators)
        stack.enter_context(printing.quiet(given))
        yield


def _agree(fit: Fit, arguments: dict[str, Any], given: list[Any]) -> bool:
    """The first meeting of the peers. Returns whether one of them may stop after any batch."""
    if fit.elastic_run is None and peer.joining():
        raise errors.FailedPreconditionError(
            "fit: this peer has joined a job that is already training, and was not taken in: "
            f"{changing_peers.why_not(fit, arguments)}"
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
    """Restores the model's train step afterwards; and its function, if it is trained around us."""
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
