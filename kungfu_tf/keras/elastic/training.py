"""`elastic.fit`: a training that continues while peers come and go."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kungfu_tf import context, peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.data.dealt import Dealt
from kungfu_tf.exchange import union
from kungfu_tf.keras import patches
from kungfu_tf.keras.elastic import arguments_of_fit
from kungfu_tf.keras.elastic.backup import Backup
from kungfu_tf.keras.elastic.callback_lifetime import CallbackLifetime
from kungfu_tf.keras.elastic.callback_state import CallbackState
from kungfu_tf.keras.fit import given_callbacks
from kungfu_tf.keras.fit.asynchronous import AsynchronousElasticRun
from kungfu_tf.keras.fit.call import meets_of
from kungfu_tf.keras.fit.callbacks import writers
from kungfu_tf.keras.fit.elastic_run import ElasticRun
from kungfu_tf.keras.fit.last_check import check_at_end
from kungfu_tf.keras.fit.membership_change import MembershipChange
from kungfu_tf.keras.fit.place import Place
from kungfu_tf.membership import failing_together, notice
from kungfu_tf.upstream import generations


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

    With `kungfu-run -w` the number of peers may change between any two steps. An `ElasticCallback`,
    a policy, the program (`kungfu_tf.propose_new_size`) or a request from outside may ask for it.
    Then:

    - Newcomers start and run the program up to here. They build and trace their model, and try a
      step of their own, while the others train. Only then they are taken in, between two steps
      (`steps_per_execution` > 1: between two executions). They get the model, the optimizer, the
      step, the learning rate and the place in the data from rank 0, which is never a newcomer.
    - The rest of the epoch is dealt out anew among all peers. Each sample of an epoch is trained on
      once. Samples that were read ahead are read again. All peers end an epoch at the same step.
    - If peers do not meet in each step, as with `PairAveragingOptimizer`, each changes over after a
      step of its own, and all wait for the slowest one. A peer that has finished an epoch waits for
      the others, and gets a part of their remaining samples if the peers change. Callbacks that
      count steps, such as `ElasticCallback`, count those of rank 0.
    - Peers that leave return from here. Then `kungfu_tf.detached()` is True, and the program should
      end with code 0.
    - Nothing is traced anew. The weights of all peers stay bitwise equal. If each peer trains a
      model of its own, all continue from the average.

    Callbacks see one training. A newcomer's callbacks begin when it comes. Keras' own (History,
    EarlyStopping, ReduceLROnPlateau, ModelCheckpoint) get the state of rank 0's. The metrics of an
    epoch are those of all its samples.

    `BackupAndRestore` continues with the sample after its backup, on any number of peers. If peers
    do not meet in each step, it must make backups at the end of epochs.

    In a job whose peers stay the same, and in a single process, arrays and datasets with a
    `Position` are dealt out in the same order, from the same place. Any other dataset is passed to
    `model.fit`.

    Args:
        model: Compiled, with an optimizer of `kungfu_tf.optimizers`; in a process that is alone
            with any.
        x: A dataset of batches, made from `kungfu_tf.data.shard` by map, batch and prefetch; or all
            samples, as arrays or tensors, the same on every peer.
        y: As for `model.fit`.
        initial_sample: For arrays, the sample to begin with in the first epoch, to resume from a
            checkpoint. A dataset has a `Position` instead. A backup takes precedence.
        seed: The seed of the order of arrays, which is another one in each epoch.
        **arguments: The other arguments of `model.fit`, without `steps_per_epoch`: an epoch is one
            pass through the data.

    Returns:
        Keras' History.

    Raises:
        FailedPreconditionError: If the optimizer is not wrapped; or if the peers of only some of
            several optimizers meet in each step.
        TypeError: If the data are neither a dataset nor arrays.
        ValueError: If the data were not dealt out by `data.shard`; if an argument or a callback
            does not fit.
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
        arguments_of_fit.check_optimizers(model)
    arguments_of_fit.check(given)
    patches.install()
    dealt = arguments_of_fit.deal_data(model, given, initial_sample, seed)
    if dealt is None:  # the peers of this job stay the same
        return model.fit(*call.args, **call.kwargs)
    return _Training(model, given, dealt).run()


# The place of a later training that this newcomer has heard of, and its program has yet to reach.
_place_ahead: Place | None = None


class _Training:
    """One elastic training on this peer.

    Args:
        model: The model that is trained.
        given: The arguments of `model.fit`, with a dataset.
        dealt: What is known of the dataset.
    """

    def __init__(self, model: Any, given: Mapping[str, Any], dealt: Dealt) -> None:
        self._model = model
        self._given = dict(given)
        position = dealt.position
        if position.epoch == 0 and given["initial_epoch"]:
            position.epoch = int(given["initial_epoch"])
        continues = position.epoch > 0 or position.sample > 0
        self._callbacks = given_callbacks.as_list(given["callbacks"])
        kind = AsynchronousElasticRun if meets_of(model) is Meets.NEVER else ElasticRun
        self._run = kind(
            dealt,
            epochs=int(given["epochs"]),
            batch_size=given_callbacks.first_batch_size(self._callbacks),
            earlier_steps=generations.steps_of(model) if continues else 0,
        )
        self._history = self._find_history()
        self._callback_state = CallbackState(self._callbacks, model)
        self._backups = self._find_backups()
        self._last_membership = -1  # the version with which `fit` was called last
        self._has_new_peers = False  # who have not shared the callbacks' state yet

    def run(self) -> Any:
        """Trains until the last epoch ends, or this peer leaves. Returns Keras' History."""
        self._model.train_function = None
        try:
            if peer.joining():
                self._join()
            with (
                notice.heeded(),
                CallbackLifetime(self._callbacks, self._begin) as lifetime,
                self._noting_backups(),
            ):
                while not peer.detached() and not self._has_ended():
                    self._call_fit()
                self._end(lifetime)
        finally:
            self._model.train_function = None  # it counts samples for this training
            self._run.position.dealt_among = None
        self._model.history = self._history
        return self._history

    def _join(self) -> None:
        """Gets ready, and waits until the other peers take this one in."""
        self._warm_up()
        self._change_membership()
        if union.has_outdated_traces():
            self._model.train_function = None

    def _warm_up(self) -> None:
        """Builds the model, traces a step and tries it, alone. Then the variables are put back."""
        with self._run.warming_up(), _kept(self._model), contextlib.suppress(MembershipChange):
            self._fit([], initial_epoch=0, epochs=1, verbose=0)

    def _has_ended(self) -> bool:
        """Goes to rank 0's place. Returns whether this training has ended there."""
        if getattr(self._model, "stop_training", False) and self._run.step > 0:
            return True
        return not self._go_to_root() or self._run.position.epoch >= self._run.epochs

    def _go_to_root(self) -> bool:
        """Goes to rank 0's place in this training. Returns False if rank 0 is in a later one.

        That happens to a newcomer, whose program starts at its first training. It keeps the place
        until its program comes to the later training, because the others tell it only once.
        """
        global _place_ahead
        place, _place_ahead = _place_ahead, None
        if place is not None:
            self._has_new_peers = True
        else:
            place = self._run.place_of_root()
        if place.training > self._run.number:
            _place_ahead = place
            return False
        self._run.go_to(place)
        if self._has_new_peers:
            self._callback_state.share(with_newcomers=True)
            self._has_new_peers = False
        return True

    def _call_fit(self) -> None:
        """Calls `fit` for the rest of an epoch; where an epoch begins, for all that are left."""
        run, epoch = self._run, self._run.position.epoch
        self._last_membership = peer.agreed_version()
        try:
            self._fit(
                self._callbacks,
                initial_epoch=epoch,
                epochs=epoch + 1 if run.has_begun else run.epochs,
            )
        except MembershipChange:
            self._callback_state.share(with_newcomers=False)  # rank 0 may leave
            self._change_membership()

    def _change_membership(self) -> None:
        peer.resize()
        self._has_new_peers = True

    def _end(self, lifetime: CallbackLifetime) -> None:
        """Ends the training for the callbacks, and compares the peers a last time."""
        # A peer that leaves does not end the training: rank 0's backup is still needed.
        but = () if peer.is_root() else writers(self._model)
        with contextlib.nullcontext() if peer.detached() else failing_together.together():
            lifetime.end(self._last_logs(), but=but)
            # A newcomer that came too late has not trained with these peers.
            if self._last_membership == peer.agreed_version():
                check_at_end(self._model, self._callbacks)

    def _begin(self, callback: Any, method: Callable[[], None]) -> None:
        """Begins the training for a callback, perhaps late: on a newcomer, or a new rank 0.

        Args:
            callback: The callback.
            method: Its `on_train_begin`.
        """
        keras = generations.package_of(self._model).module.callbacks
        is_late = self._run.step > 0
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
        """Restores a backup where no other peer trains yet. Within it backups note their place."""
        for backup in self._backups:
            if peer.is_root() and not self._has_new_peers and _place_ahead is None:
                backup.restore()
            backup.begin_noting()
        try:
            yield
        finally:
            for backup in self._backups:
                backup.end_noting()

    def _fit(self, callbacks: list[Any], **changes: Any) -> None:
        self._model._initial_epoch = None  # Keras 3: a callback has set it from a checkpoint
        arguments = {**self._given, "callbacks": callbacks, **changes}
        with context.within(elastic_run=self._run):
            self._model.fit(**arguments)

    def _find_backups(self) -> list[Backup]:
        kind = generations.package_of(self._model).module.callbacks.BackupAndRestore
        found = [c for c in self._callbacks if isinstance(c, kind)]
        return [Backup(c, self._model, self._run) for c in found]

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
    """Restores the variables of the model, its optimizers and algorithms afterwards."""
    optimizers = generations.optimizers_of(model)
    variables = [*model.variables, *(v for o in optimizers for v in generations.variables_of(o))]
    variables += [v for a in generations.algorithms_of_model(model) for v in a.variables]
    natives = map(generations.native, generations.only_variables(variables))
    before = [(variable, variable.numpy()) for variable in natives]
    try:
        yield
    finally:
        for variable, value in before:
            variable.assign(value)
