"""Keras models that go on training while processes come, go and fail."""

from __future__ import annotations

from typing import Any

from horovod.common.elastic import State
from horovod.tensorflow.elastic import TensorFlowKerasState, run

from kungfu_tf.upstream.callback import Callback

__all__ = [
    "CommitStateCallback",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]


class KerasState(TensorFlowKerasState):
    """A Keras model and its optimizer, and objects as attributes.

    Args:
        model: A model that is built.
        optimizer: Its optimizer; None: the one that it is compiled with.
        **kwargs: The objects.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        super().__init__(model, optimizer, **kwargs)


class CommitStateCallback(Callback):
    """Commits a state after some batches, and after each epoch.

    Args:
        state: The state.
        batches_per_commit: How many batches.
    """

    def __init__(self, state: State, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        """Begins to count, on all processes."""
        del logs
        self.batches_remaining = self.batches_per_commit

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Commits if it is time."""
        del batch, logs
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Commits."""
        del epoch, logs
        self.commit()

    def commit(self) -> None:
        """Commits the state."""
        self.state.commit()


class UpdateBatchStateCallback(Callback):
    """Keeps the number of the batch in `state.batch`, and 0 after an epoch.

    Args:
        state: The state.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Sets it."""
        del logs
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Sets it to 0."""
        del epoch, logs
        self.state.batch = 0


class UpdateEpochStateCallback(Callback):
    """Keeps the number of epochs in `state.epoch`, over all calls of `fit`.

    Args:
        state: The state.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Sees where this `fit` begins."""
        del logs
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Counts the epoch."""
        del logs
        self.state.epoch = self.initial_epoch + epoch + 1
