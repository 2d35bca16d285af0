"""Trainings that go on while processes come, go and fail; and their state in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from horovod.common._membership import change_over, leave
from horovod.common.elastic import ObjectState, run_fn
from horovod.common.exceptions import HorovodInternalError
from horovod.tensorflow.functions import broadcast_object, broadcast_variables
from horovod.tensorflow.mpi_ops import rank

from kungfu_tf import errors, peer
from kungfu_tf.upstream import generations

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]

# The codes of errors that another process is the cause of.
_OF_OTHERS = (
    errors.AbortedError.code,
    errors.DeadlineExceededError.code,
    errors.UnavailableError.code,
)


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function that trains from where its first argument, a state, says.

    All processes first get rank 0's state. They call the function again when processes come or go,
    and from the last commit after a collective has failed. A process that has to go ends with code
    0 there.

    Args:
        func: Takes the state, and further arguments.

    Returns:
        A function of the same arguments, which returns what `func` does.

    Raises:
        HorovodInternalError: After five failures without a commit between them.

    Example:

    ```python
    @hvd.elastic.run
    def train(state):
        while state.step < 1000:
            train_step()
            state.step += 1
            state.commit()


    train(hvd.elastic.TensorFlowKerasState(model, optimizer, step=0))
    ```
    """
    return run_fn(func, change_over, _failing_together)


@contextlib.contextmanager
def _failing_together() -> Iterator[None]:
    """Within it what fails for the sake of another process is a HorovodInternalError on all."""
    try:
        yield
    except HorovodInternalError as error:
        leave(error)
        raise
    except (tf.errors.OpError, errors.KungfuError) as error:
        code = error.error_code if isinstance(error, tf.errors.OpError) else error.code
        if code not in _OF_OTHERS and not (peer.launched() and peer.interrupted()):
            raise
        leave(error)
        raise HorovodInternalError(str(error)) from error


class _Variables(ObjectState):
    """Objects and variables."""

    def __init__(self, session: Any, kwargs: dict[str, Any]) -> None:
        super().__init__(broadcast_object, rank, **kwargs)
        self.session = session
        # A session's graph may be finalized later.
        variables = self._of_state()
        self._broadcast = None if session is None else broadcast_variables(variables, root_rank=0)
        self._values = self._read()

    def _of_state(self) -> Sequence[Any]:
        raise NotImplementedError

    def save(self) -> None:
        """Keeps the variables and the attributes as they are."""
        self._values = self._read()
        super().save()

    def restore(self) -> None:
        """Sets the variables and the attributes as they were kept."""
        for variable, value in zip(self._of_state(), self._values, strict=True):
            if self.session is None:
                variable.assign(value)
            else:
                variable.load(value, self.session)
        super().restore()

    def sync(self) -> None:
        """Gives all processes rank 0's variables and attributes."""
        if self.session is None:
            broadcast_variables(self._of_state(), root_rank=0)
        else:
            self.session.run(self._broadcast)
        self._values = self._read()
        super().sync()

    def _read(self) -> list[Any]:
        if self.session is not None:
            return list(self.session.run(list(self._of_state())))
        return [np.array(variable.numpy()) for variable in self._of_state()]


class TensorFlowState(_Variables):
    """Variables, and objects as attributes.

    Args:
        variables: Variables; None: all global ones.
        session: The session of a graph.
        **kwargs: The objects.
    """

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        self.variables = variables or tf.compat.v1.global_variables()
        if session is None and not tf.executing_eagerly():
            session = tf.compat.v1.get_default_session()
        super().__init__(session, kwargs)

    def _of_state(self) -> Sequence[Any]:
        return list(self.variables)


class TensorFlowKerasState(_Variables):
    """A Keras model and its optimizer, and objects as attributes.

    Args:
        model: A model that is built.
        optimizer: Its optimizer; None: the one that it is compiled with.
        backend: Keras' backend, of a graph.
        **kwargs: The objects.

    Raises:
        ValueError: If the model is not built.
    """

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        if not model.built:
            raise ValueError("the model must be built first, by model.build(input_shape)")
        self.model = model
        self.optimizer = optimizer or model.optimizer
        self.backend = backend
        # A process that has trained, and one that has not, have the same variables then.
        generations.build(self.optimizer, model.trainable_variables)
        session = None
        if not tf.executing_eagerly():
            session = (backend or tf.compat.v1.keras.backend).get_session()
        super().__init__(session, kwargs)

    def _of_state(self) -> Sequence[Any]:
        states = generations.variables_of(self.optimizer)
        return [generations.native(v) for v in [*self.model.variables, *states]]
