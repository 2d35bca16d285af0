"""Optimizers of Keras 3 on TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kungfu_tf.exchange import new_values
from kungfu_tf.exchange.wrapped import Wrapped, WrappedInside
from kungfu_tf.replicas import sample_weights
from kungfu_tf.upstream import generations


class Keras3Copies(generations.Base):
    """How an optimizer of Keras 3 is copied, whose class is ours: Keras copies by saving.

    What `pickle` saves is, like any file, of the plain optimizer. A copy in this process is wrapped
    as its original is.
    """

    def __reduce__(self) -> Any:
        _, *arguments = super().__reduce__()
        plain: Any = type(self).__bases__[1]
        return plain._unpickle_model, *arguments

    def __copy__(self) -> Any:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> Any:
        load, arguments = self.__reduce__()
        return type(self).kungfu_wrap(load(*arguments))


class Keras3Optimizer(Keras3Copies, Wrapped):
    """What `wrap` adds to a `keras.optimizers.Optimizer` of Keras 3."""

    kungfu_sums_rows = False

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Keras' method, which `apply_gradients` and `fit` end in, with the algorithm around it."""
        keras_apply = super().apply
        variables = (
            self._trainable_variables if trainable_variables is None else trainable_variables
        )
        grads, variables = list(grads), list(variables)
        if self.kungfu_accumulates():
            # Called for every micro step. Once per update Keras clips what has been gathered.
            grads = self._kungfu_all_given(grads, variables)
            self.kungfu_state.gathered = new_values.trained(grads, variables)
            grads = new_values.largest(self.kungfu_algorithm, grads, variables)
            grads = weighted(grads, variables)
            return keras_apply(grads, trainable_variables)
        grads = self.kungfu_gradients(grads, variables)
        updated = [generations.native(v) for v in new_values.trained(grads, variables)]
        self._kungfu_update(grads, updated, lambda: keras_apply(grads, trainable_variables))

    def kungfu_gradients(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """The algorithm's gradients; of what are not gradients but new values, the largest."""
        if self.kungfu_state.is_given_means:
            return grads
        return self._kungfu_means(self._kungfu_all_given(grads, variables), variables)

    def _kungfu_all_given(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """With zeros for gradients that only other peers have; new values as they are."""
        mine = new_values.left_out(grads, variables)
        return new_values.put_back(self._kungfu_completed(mine, variables), grads, variables)

    def _kungfu_means(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        grads = new_values.largest(self.kungfu_algorithm, grads, variables)
        theirs = self._kungfu_exchange(
            new_values.left_out(grads, variables),
            [generations.native(v) for v in variables],
            self._kungfu_step(),
        )
        return new_values.put_back(theirs, grads, variables)

    def _kungfu_step(self) -> Any:
        """The number of updates before, as TensorFlow has it; computed where gradients gather."""
        return getattr(self.iterations, "value", self.iterations)

    @contextlib.contextmanager
    def kungfu_exchanged(self) -> Iterator[None]:
        """Within it, `apply` is given gradients that `kungfu_gradients` has returned."""
        self.kungfu_state.is_given_means = True
        try:
            yield
        finally:
            self.kungfu_state.is_given_means = False

    def kungfu_accumulates(self) -> bool:
        """Whether several steps make one update."""
        return bool(getattr(self, "gradient_accumulation_steps", None))

    def _clip_gradients(self, grads: Any) -> Any:
        if self.kungfu_accumulates():
            with sample_weights.unweighted():
                grads = self._kungfu_means(list(grads), self.kungfu_state.gathered)
        return super()._clip_gradients(grads)

    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        step = super()._backend_update_step
        if not self.kungfu_accumulates():
            return step(grads, trainable_variables, learning_rate)
        updated = [generations.native(v) for v in trainable_variables]
        self._kungfu_update(grads, updated, lambda: step(grads, trainable_variables, learning_rate))


class Keras3WrappedInside(Keras3Copies, WrappedInside):
    """What `wrap` adds to a `keras.optimizers.LossScaleOptimizer` of Keras 3: see loss_scale.py."""


def weighted(grads: list[Any], variables: list[Any]) -> list[Any]:
    """A step's gradients, weighed by its samples before others are added."""
    mine = new_values.left_out(grads, variables)
    mine = sample_weights.weighted(mine, sample_weights.current())
    return new_values.put_back(mine, grads, variables)
