"""Keras' iterators of epochs, which get data of one length on all peers."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from kungfu_tf.context.meets import Meets
from kungfu_tf.keras.fit import counted_step, executions
from kungfu_tf.keras.fit.background_iterators import BackgroundIterators
from kungfu_tf.keras.fit.call import Fit, current
from kungfu_tf.keras.fit.even_adapter import EvenAdapter
from kungfu_tf.keras.fit.even_data import EvenData
from kungfu_tf.upstream import generations


def make_epoch_iterator(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
    """Keras 3: the constructor of the iterator."""
    original(self, *args, **kwargs)
    dataset = self._distributed_dataset
    if not isinstance(dataset, tf.data.Dataset):  # tf.distribute's, for its one replica
        dataset = self.data_adapter.get_tf_dataset()
    fit, data = current(), None
    if fit is not None and _trains_on_even_data(fit):
        data = _even(fit, self.data_adapter, dataset)
        self.data_adapter = EvenAdapter(self.data_adapter, data)
        self._distributed_dataset = data.dataset
        self._num_batches = data.length
        executions.fit_the_data(fit, self, self.steps_per_epoch or data.length)
        if data.sizes:
            data.forget_length = lambda: setattr(self, "_num_batches", None)
            self.catch_stop_iteration = _without_warning(self, self.catch_stop_iteration)
    self._distributed_dataset = _in_background(self._distributed_dataset, data)


def configure_dataset(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
    """Keras 2: the method that takes the data."""
    call = inspect.signature(original).bind(self, *args, **kwargs)
    # With steps_per_epoch, an epoch continues where the previous one has stopped.
    goes_on = call.arguments["steps_per_epoch"] is not None
    fit, data = current(), None
    if fit is not None and _trains_on_even_data(fit):
        data = _even(fit, self._adapter, self._adapter.get_dataset(), goes_on=goes_on)
        self._adapter = EvenAdapter(self._adapter, data)
        if fit.elastic_run is not None:  # `fit` may be left in the middle of an epoch
            fit.steps_per_execution = generations.steps_per_execution(fit.model)
        if data.sizes and not goes_on:
            data.forget_length = lambda: setattr(self, "_inferred_steps", None)
            executions.follow_the_policies(fit)
    original(self, *args, **kwargs)
    self._dataset = _in_background(self._dataset, data)


def _trains_on_even_data(fit: Fit) -> bool:
    """Whether this iterator is for the training of all peers, and not for validation."""
    if not fit.is_shared or fit.data is not None:
        return False
    return fit.meets is not Meets.NEVER or fit.elastic_run is not None


def _even(fit: Fit, adapter: Any, dataset: tf.data.Dataset, *, goes_on: bool = False) -> EvenData:
    fit.data = EvenData.of(fit, adapter, dataset, goes_on=goes_on)
    counted_step.put_into(fit, fit.data)
    return fit.data


def _in_background(dataset: Any, data: EvenData | None) -> Any:
    """The dataset, whose iterators are dropped in the background."""
    fit = current()
    if fit is None or not fit.is_shared:
        return dataset
    if data is not None and dataset is data.dataset:  # tf.distribute may have made another one
        iterators = BackgroundIterators(dataset, data.watched)
    else:
        iterators = BackgroundIterators(dataset)
    fit.background_iterators.callback(iterators.close)
    return iterators


def _without_warning(
    iterator: Any, catch: Callable[[], contextlib.AbstractContextManager[None]]
) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Keras' handler of an epoch's end, without its warning that batches are missing.

    The number of batches was not known before.
    """

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
