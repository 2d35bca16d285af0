"""The functions of Keras that are replaced once an optimizer is wrapped or a callback of ours made.

For a model that is trained without us, and in a process that is alone, they do what they did.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from kungfu_tf import errors, peer
from kungfu_tf.context import batch_factor
from kungfu_tf.context.running_fit import Fit, current, followed, running
from kungfu_tf.keras.callbacks.metric_average import MetricAverageCallback
from kungfu_tf.keras.fit import agreement, callbacks, executions, loss_means, misuse_warnings
from kungfu_tf.keras.fit.asynchronous import is_synchronous
from kungfu_tf.keras.fit.background_iterators import BackgroundIterators
from kungfu_tf.keras.fit.data import EvenAdapter, counting_samples
from kungfu_tf.membership import failing_together
from kungfu_tf.replicas import first_step, metrics, randomness
from kungfu_tf.replicas.average import average_variables
from kungfu_tf.upstream import generations


def fit(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    call = inspect.signature(original).bind(model, *args, **kwargs)
    call.apply_defaults()
    given = callbacks.as_list(call.arguments["callbacks"])
    if callbacks.monitors_first(given) != given:
        given = call.arguments["callbacks"] = callbacks.monitors_first(given)
    is_shared = _is_shared(model, given)
    averages = is_shared or any(isinstance(c, MetricAverageCallback) for c in given)
    fit = _new_fit(model, is_shared, averages, call.arguments["x"])
    fit.batch_size = callbacks.first_batch_size(given)
    if fit.elastic_run is not None:
        fit.batch_size = fit.elastic_run.batch_size
    elif fit.is_shared and peer.joining():
        raise errors.FailedPreconditionError(
            "fit: this peer has come to a job that trains already, and nobody has taken it in. "
            "Train with kungfu_tf.elastic.fit(model, ...), or call kungfu_tf.resize() before"
        )
    if fit.is_shared:
        for algorithm in generations.algorithms_of_model(model):
            algorithm.before_training()
        stops_early = agreement.check(
            model,
            call.arguments,
            check_every=callbacks.check_every(given),
            policies=callbacks.kinds_of_policies(given),
            may_stop_early=callbacks.may_stop_early(given),
        )
    elif not callbacks.has_any_of_ours(given):
        misuse_warnings.warn_if_not_wrapped(model)
    with contextlib.ExitStack() as stack:
        if fit.is_shared:
            stack.enter_context(failing_together.together())
            misuse_warnings.warn_of_sums(model)
            call.arguments["callbacks"] = callbacks.arranged(fit, given, stops_early)
            call.arguments["verbose"] = _verbosity(call.arguments["verbose"])
            stack.enter_context(randomness.of_this_peer())
            stack.enter_context(fit.average)
            stack.enter_context(fit.passes)
            stack.enter_context(callbacks.quiet(given))
        stack.enter_context(_put_back(model, fit))
        stack.enter_context(running(fit if fit.is_shared or not peer.is_single_process() else None))
        return original(*call.args, **call.kwargs)


@contextlib.contextmanager
def _put_back(model: Any, fit: Fit) -> Iterator[None]:
    """Afterwards the model has the train step that it had; and its function, if it is in a fit."""
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


def evaluate(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    """`fit` asks for its own evaluation; any other may be of one peer alone."""
    is_of_fit = kwargs.get("_use_cached_eval_dataset", False)
    fit = current() if is_of_fit else None
    is_average = fit is not None and fit.model is model and fit.differs
    average = average_variables(model) if is_average else contextlib.nullcontext()
    is_of_all = fit is not None and fit.model is model and fit.averages
    validation = loss_means.validating(model) if is_of_all else contextlib.nullcontext()
    with running(fit), average, validation:
        return _quietly(original, model, args, kwargs)


def predict(original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    with running(None):
        return _quietly(original, model, args, kwargs)


def results(original: Callable[..., Any], model: Any, logs: Any) -> Any:
    """The metrics' results when a loop has ended."""
    fit = current()
    if fit is None or not fit.averages or fit.model is not model:
        return original(model, logs)
    metrics.sum_states(model.metrics)
    if not logs:  # no batches here; those of others count
        logs = model.get_metrics_result()
    results = original(model, logs)
    return metrics.averaged(logs) if agreement.all_agree(results is logs) else results


def first_epoch_and_step(original: Callable[..., Any], model: Any, *args: Any) -> Any:
    """Keras 2: where training begins, which BackupAndRestore knows on rank 0 only."""
    fit = current()
    if fit is not None and fit.elastic_run is not None:  # which knows where it is
        return args[1], 0
    counters = original(model, *args)
    is_shared = fit is not None and fit.is_shared
    return tuple(agreement.from_root(counters)) if is_shared else counters


def make_epoch_iterator(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
    """Keras 3: what is made of the data."""
    original(self, *args, **kwargs)
    dataset = self._distributed_dataset
    if not isinstance(dataset, tf.data.Dataset):  # tf.distribute's, for its one replica
        dataset = self.data_adapter.get_tf_dataset()
    if data := _evened(self.data_adapter, dataset):
        self.data_adapter = data
        self._distributed_dataset = data.get_tf_dataset()
        self._num_batches = data.num_batches
        if (fit := current()) is not None:
            executions.fit_the_data(fit, self, self.steps_per_epoch or data.num_batches)
        if data.sizes:
            data.forget_length = lambda: setattr(self, "_num_batches", None)
            self.catch_stop_iteration = _without_surprise(self, self.catch_stop_iteration)
    self._distributed_dataset = _in_passes(self._distributed_dataset, data)


def _without_surprise(
    iterator: Any, catch: Callable[[], contextlib.AbstractContextManager[None]]
) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Keras' end of an epoch, without its warning: nobody knew the number of batches."""

    @contextlib.contextmanager
    def catch_quietly() -> Iterator[None]:
        try:
            yield
            iterator.tf_sync()
        except (StopIteration, tf.errors.OutOfRangeError):
            with warnings.catch_warnings(), catch():
                warnings.simplefilter("ignore")
                raise

    return catch_quietly


def configure_dataset(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
    """Keras 2: the same."""
    call = inspect.signature(original).bind(self, *args, **kwargs)
    goes_on = call.arguments["steps_per_epoch"] is not None
    if data := _evened(self._adapter, self._adapter.get_dataset(), goes_on=goes_on):
        self._adapter = data
        fit = current()
        if fit is not None and fit.elastic_run is not None:  # it may be left in the last execution
            fit.steps_per_execution = generations.steps_per_execution(fit.model)
        if fit is not None and data.sizes and not goes_on:
            data.forget_length = lambda: setattr(self, "_inferred_steps", None)
            executions.follow_the_policies(fit)
    original(self, *args, **kwargs)
    self._dataset = _in_passes(self._dataset, data)


def _in_passes(dataset: Any, data: EvenAdapter | None) -> Any:
    fit = current()
    if fit is None or not fit.is_shared:
        return dataset
    if data is not None and dataset is data.get_dataset():  # not what tf.distribute made of it
        passes = BackgroundIterators(dataset, data.looking_at_the_first_batch)
    else:
        passes = BackgroundIterators(dataset)
    fit.passes.callback(passes.close)
    return passes


def _evened(adapter: Any, dataset: Any, *, goes_on: bool = False) -> EvenAdapter | None:
    """What `fit` shall train on; None for other data, as that it validates on."""
    fit = current()
    if fit is None or not fit.is_shared or fit.data is not None:
        return None
    if not fit.is_synchronous and fit.elastic_run is None:
        return None
    size, elastic_run = fit.batch_size, fit.elastic_run
    fit.data = EvenAdapter(
        adapter, dataset, fit.x, goes_on=goes_on, batch_size=size, elastic_run=elastic_run
    )
    counts = fit.data.counts
    made_for = getattr(getattr(fit.model, "train_function", None), "kungfu_counts", None)
    if elastic_run is not None:
        is_made, elastic_run.has_function = elastic_run.has_function, True
    else:
        is_made = made_for == counts and size is None
    if not is_made:
        fit.model.train_function = None  # it was made of another step
    if counts:
        vars(fit.model)["train_step"] = counting_samples(fit.model, fit.data, elastic_run)
    return fit.data


def _new_fit(model: Any, is_shared: bool, averages: bool, x: Any) -> Fit:
    algorithms = generations.algorithms_of_model(model)
    return Fit(
        model,
        is_shared,
        averages,
        x,
        elastic_run=followed() if is_shared else None,
        is_synchronous=is_synchronous(model),
        differs=any(not algorithm.keeps_equal for algorithm in algorithms),
    )


def _is_shared(model: Any, given: list[Any]) -> bool:
    if peer.is_single_process():
        return followed() is not None or callbacks.first_batch_size(given) is not None
    is_custom = callbacks.has_ours(given) and generations.has_own_train_step(model)
    return is_custom or bool(generations.algorithms_of_model(model))


def _quietly(original: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
    if not generations.algorithms_of_model(model):
        return original(model, *args, **kwargs)
    call = inspect.signature(original).bind(model, *args, **kwargs)
    call.apply_defaults()
    call.arguments["verbose"] = _verbosity(call.arguments["verbose"])
    return original(*call.args, **call.kwargs)


def _verbosity(asked: Any) -> Any:
    """Rank 0 prints for all."""
    return asked if callbacks.prints() else 0
