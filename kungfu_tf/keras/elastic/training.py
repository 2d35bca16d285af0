"""`fit`, which goes on while peers come and go."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import context, errors, peer
from kungfu_tf.context import ordinals
from kungfu_tf.data.position import Position, dealt_of, follows, of_arrays
from kungfu_tf.exchange import union
from kungfu_tf.keras import patches
from kungfu_tf.keras.elastic.backup import Backup
from kungfu_tf.keras.elastic.callback_lifetime import CallbackLifetime
from kungfu_tf.keras.elastic.callback_state import CallbackState
from kungfu_tf.keras.fit import given_callbacks
from kungfu_tf.keras.fit.asynchronous import AsynchronousElasticRun, is_synchronous
from kungfu_tf.keras.fit.callbacks import writers
from kungfu_tf.keras.fit.elastic_run import ElasticRun
from kungfu_tf.keras.fit.last_check import check_at_end
from kungfu_tf.keras.fit.membership_change import Change
from kungfu_tf.membership import failing_together
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.arrays import as_fit_packs


def fit(
    model: Any,
    x: Any,
    *,
    y: Any = None,
    initial_sample: int = 0,
    seed: int = 0,
    **arguments: Any,
) -> Any:
    """Trains a Keras model as `model.fit` does, while peers come and go.

    In a job of `kungfu-run -w` its size may change between any two steps. An `ElasticCallback`, a
    policy or the program (`kungfu_tf.propose_new_size`) may ask for it, or a request from outside.
    Then:

    - Newcomers start, run the program up to here, build and trace their model, and try a step of
      their own, while the others train. Only then they are taken in, between two steps
      (`steps_per_execution` > 1: between two executions). They get the model, the optimizer, the
      step, the learning rate and the place in the data from rank 0, which was there before.
    - All peers deal out the rest of the epoch anew: each sample of an epoch is trained on once, and
      samples that were read ahead are read again. All end an epoch at the same step.
    - Peers that do not meet in each step, as those of `PairAveragingOptimizer`, go over after a
      step of their own: all wait for the slowest one. A peer that has finished an epoch waits for
      the others, and gets a part of their remaining samples if the peers change. Callbacks that
      count steps, as an `ElasticCallback`, count those of rank 0.
    - Peers that leave return: `kungfu_tf.detached()` is True, and the program should end, with
      code 0.
    - Nothing is traced anew. The weights of all peers are bitwise equal as ever; with optimizers
      that train a model on each peer all go on from the average.

    Callbacks see one training. Those of a newcomer begin when it comes, and of Keras' own know what
    rank 0's know: History, EarlyStopping, ReduceLROnPlateau, ModelCheckpoint. An epoch's
    metrics are of all its samples.

    A `BackupAndRestore` continues with the sample after its backup, on any number of peers. Peers
    that do not meet in each step make backups at an epoch's end only.

    A job that does not change its size, and a single process, deal out arrays, and datasets with a
    `Position`, in the same order and from the same place on. With any other dataset it is `fit`
    there.

    Args:
        model: Compiled, with an optimizer of `kungfu_tf.optimizers`; in a process that is alone
            with any.
        x: A dataset of batches out of `kungfu_tf.data.shard`, by map, batch and prefetch; or all
            samples, as arrays or tensors, the same on every peer.
        y: As for `model.fit`, like the rest. An epoch is one pass through the data:
            `steps_per_epoch` cannot be.
        initial_sample: The sample to begin with in the first epoch: that of a dataset's `Position`
            when the model was saved. For a dataset its position says it. A backup goes before.
        seed: Of the order of arrays, which differs in each epoch and is the same on all peers.
        **arguments: Of `model.fit`.

    Returns:
        Keras' History.

    Raises:
        FailedPreconditionError: If the optimizer is not wrapped; if there are several, and the
            peers of only some meet in each step.
        TypeError: If the data are neither a dataset nor arrays.
        ValueError: If they cannot be followed, or an argument or a callback cannot be.
        KungfuError: As from `fit` and `kungfu_tf.resize`.

    Example:

    ```python
    dataset = kf.data.shard(samples, shuffle=10_000).map(decode).batch(32).prefetch(8)
    kf.elastic.fit(model, dataset, epochs=10)
    ```
    """
    call = inspect.signature(model.fit).bind(x, y, **arguments)
    call.apply_defaults()
    given = call.arguments
    if not peer.is_single_process():
        _check_peers_train_together(model)
    _check_arguments(given)
    patches.install()
    dealt = _dataset(model, given, initial_sample, seed)
    if dealt is None:  # of a job that stays as it is
        return model.fit(*call.args, **call.kwargs)
    return _Training(model, given, dealt).run()


# Places told to a newcomer, of a training that its program comes to later.
_told: list[list[int]] = []


class _Training:
    """One, on this peer.

    Args:
        model: The model that is trained.
        given: The arguments of `model.fit`, with a dataset.
        dealt: Of that dataset.
    """

    def __init__(self, model: Any, given: Mapping[str, Any], dealt: Any) -> None:
        self._model = model
        self._given = dict(given)
        self._epochs = int(given["epochs"])
        kind = ElasticRun if is_synchronous(model) else AsynchronousElasticRun
        self._elastic_run = kind(dealt, epochs=self._epochs)
        self._number = ordinals.trainings.take()
        position = dealt.position
        if position.epoch == 0 and given["initial_epoch"]:
            position.epoch = int(given["initial_epoch"])
        if position.epoch or position.sample:
            self._elastic_run.before = generations.steps_of(model)
        self._callbacks = given_callbacks.as_list(given["callbacks"])
        self._history = self._find_history()
        self._callback_state = CallbackState(self._callbacks, model)
        self._backups = self._find_backups()
        self._trained_in = -1  # the membership of the last call of `fit`
        self._has_changed = False  # the membership, since this peer has heard of the others
        first = given_callbacks.first_batch_size(self._callbacks)
        self._elastic_run.batch_size = first
        self._elastic_run.first_batch_size = first or dealt.batch_size

    def run(self) -> Any:
        """Trains, until the last epoch or this peer's end."""
        model, elastic_run = self._model, self._elastic_run
        model.train_function = None
        try:
            if peer.joining():
                self._warm_up()
                self._go_over()
                if union.has_outdated_traces():
                    model.train_function = None
            with CallbackLifetime(self._callbacks, self._begin) as lifetime, self._noting_backups():
                while not peer.detached() and not self._has_ended():
                    self._go_on()
                # A peer that leaves has not ended the training: its backup is still wanted.
                but = () if peer.is_root() else writers(model)
                with contextlib.nullcontext() if peer.detached() else failing_together.together():
                    lifetime.end(self._last_logs(), but=but)
                    if self._trained_in == peer.membership_version():  # a latecomer has not begun
                        check_at_end(model, self._callbacks)
        finally:
            model.train_function = None  # it counts for this training
        model.history = self._history
        elastic_run.sizes = None
        return self._history

    def _has_ended(self) -> bool:
        """Whether the training has ended, at rank 0's place."""
        elastic_run = self._elastic_run
        if getattr(self._model, "stop_training", False) and elastic_run.step > 0:
            return True
        if _told:
            self._has_changed = True
        number, *place = _told.pop() if _told else elastic_run.from_root(self._number)
        if number > self._number:  # the others were there before this newcomer had come
            _told.append([number, *place])
            return True
        elastic_run.be_at(place)
        if self._has_changed:
            self._callback_state.share(with_newcomers=True)
            self._has_changed = False
        return elastic_run.position.epoch >= self._epochs

    def _go_on(self) -> None:
        """Calls `fit` for the rest of an epoch; or, where one begins, for all that are left."""
        elastic_run, position = self._elastic_run, self._elastic_run.position
        self._trained_in = peer.membership_version()
        last = position.epoch + 1 if elastic_run.has_begun else self._epochs
        try:
            self._fit(self._callbacks, initial_epoch=position.epoch, epochs=last)
        except Change:
            self._callback_state.share(with_newcomers=False)  # rank 0 may leave
            self._go_over()

    def _go_over(self) -> None:
        peer.resize()
        self._has_changed = True

    def _begin(self, callback: Any, method: Callable[[], None]) -> None:
        """The training begins for a callback: on newcomers, and for files on a new rank 0, late."""
        keras = generations.package_of(self._model).module.callbacks
        is_late = self._elastic_run.step > 0
        if is_late and isinstance(callback, keras.BackupAndRestore):
            with _kept(self._model):
                method()
        elif is_late and isinstance(callback, keras.CSVLogger):
            appends, callback.append = callback.append, True
            method()
            callback.append = appends
        else:
            method()
        self._callback_state.tell(callback)

    @contextlib.contextmanager
    def _noting_backups(self) -> Iterator[None]:
        """Begins where the last one was made. Within it they know where in the data that is."""
        for backup in self._backups:
            if peer.is_root() and not self._has_changed and not _told:
                backup.restore()
            backup.noting()
        try:
            yield
        finally:
            for backup in self._backups:
                backup.forget()

    def _warm_up(self) -> None:
        """Builds, traces, and tries a step, alone; and puts the variables back."""
        elastic_run, model = self._elastic_run, self._model
        elastic_run.only_warms_up = True
        place = elastic_run.position.epoch, elastic_run.position.sample
        try:
            with _kept(model):
                self._fit([], initial_epoch=0, epochs=1, verbose=0)
        except Change:
            pass
        finally:
            elastic_run.only_warms_up = False
            elastic_run.position.epoch, elastic_run.position.sample = place
        elastic_run.step = elastic_run.trained = 0

    def _fit(self, callbacks: list[Any], **changes: Any) -> None:
        self._model._initial_epoch = None  # of Keras 3, as a callback has found it in a checkpoint
        arguments = {**self._given, "callbacks": callbacks, **changes}
        with context.within(elastic_run=self._elastic_run):
            self._model.fit(**arguments)

    def _find_backups(self) -> list[Backup]:
        kind = generations.package_of(self._model).module.callbacks.BackupAndRestore
        found = [c for c in self._callbacks if isinstance(c, kind)]
        return [Backup(c, self._model, self._elastic_run) for c in found]

    def _find_history(self) -> Any:
        kind = generations.package_of(self._model).module.callbacks.History
        for callback in self._callbacks:
            if isinstance(callback, kind):
                return callback
        self._callbacks.append(kind())
        return self._callbacks[-1]

    def _last_logs(self) -> dict[str, Any]:
        history: Mapping[str, Any] = getattr(self._history, "history", {})
        return {name: values[-1] for name, values in history.items() if values}


@contextlib.contextmanager
def _kept(model: Any) -> Iterator[None]:
    """Afterwards the variables that the model and its optimizers have have the values of before."""
    optimizers = generations.optimizers_of(model)
    variables = [*model.variables, *(v for o in optimizers for v in generations.variables_of(o))]
    natives = map(generations.native, generations.only_variables(variables))
    before = [(variable, variable.numpy()) for variable in natives]
    try:
        yield
    finally:
        for variable, value in before:
            variable.assign(value)


def _check_peers_train_together(model: Any) -> None:
    algorithms = generations.algorithms_of_model(model)
    if not algorithms:
        raise errors.FailedPreconditionError(
            "elastic.fit: the model is not compiled with an optimizer of kungfu_tf.optimizers, so "
            "its peers do not train together"
        )
    if len({algorithm.is_synchronous for algorithm in algorithms}) > 1:
        names = " and ".join(type(algorithm).__name__ for algorithm in algorithms)
        raise errors.FailedPreconditionError(
            f"elastic.fit: of {names}, the optimizers of this model, only some have peers that "
            "meet in each step, and the others' would not wait for them. Take optimizers of one "
            "kind"
        )


def _check_arguments(given: Mapping[str, Any]) -> None:
    for name, why in _CANNOT_BE.items():
        if given.get(name):
            raise ValueError(f"elastic.fit: {name} cannot be: {why}")


_CANNOT_BE = {
    "steps_per_epoch": "an epoch is one pass through the data",
    "validation_split": "give validation_data",
}


def _dataset(model: Any, given: dict[str, Any], initial_sample: int, seed: int) -> Any:
    """The known properties of the data, which are a dataset afterwards."""
    x = given["x"]
    if isinstance(x, tf.data.Dataset):
        if not follows(x):
            if peer.elastic():
                raise ValueError(
                    "elastic.fit: this dataset was not dealt out: "
                    "kungfu_tf.data.shard(samples).batch(...)"
                )
            return None
        if initial_sample:
            raise ValueError("elastic.fit: of a dataset its Position says where to begin")
        given["shuffle"] = False  # the order is that of the dataset
        return dealt_of(x)
    parts = [p for p in tf.nest.flatten(x) if p is not None]
    if not parts or not all(isinstance(p, (np.ndarray, tf.Tensor)) for p in parts):
        raise TypeError(
            f"elastic.fit: a dataset, arrays or tensors are needed, not {type(x).__name__}"
        )
    position = Position(epoch=int(given["initial_epoch"]), sample=initial_sample)
    package = generations.package_of(model)
    batch = as_fit_packs(package, x, given["y"], given["sample_weight"])
    shuffle, size = bool(given["shuffle"]), int(given["batch_size"] or _BATCH_SIZE)
    dataset = of_arrays(batch, position, size, shuffle=shuffle, seed=seed)
    given.update(x=dataset, y=None, sample_weight=None, batch_size=None, shuffle=False)
    return dealt_of(dataset)


_BATCH_SIZE = 32  # as Keras has it
