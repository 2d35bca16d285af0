"""Optimizers of Keras 3 on TensorFlow.

Keras calls `apply` in each step. If each step is an update, the gradients are exchanged there,
before Keras looks at them. With `gradient_accumulation_steps` only some steps are updates. Then
Keras calls

    apply                  in each step, to accumulate this peer's own gradients
    _clip_gradients        once per update, where the accumulated gradients are exchanged
    _backend_update_step   once per update, where the algorithm works around it
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf.exchange import new_values, whole_step
from kungfu_tf.exchange.wrapped import Wrapped, WrappedInside
from kungfu_tf.ops.gradient_values import values_of, with_values
from kungfu_tf.replicas import local_variables, sample_weights
from kungfu_tf.upstream import generations


class Keras3Copies(generations.Base):
    """Copies a wrapped optimizer of Keras 3, although Keras copies by saving.

    A pickle is that of the plain optimizer, like any saved file. A copy in this process is wrapped
    as its original is.
    """

    def __reduce__(self) -> Any:
        _, *arguments = super().__reduce__()
        plain: Any = generations.plain_class(type(self))
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
        given = self._trainable_variables if trainable_variables is None else trainable_variables
        variables = list(given)
        with whole_step.of(self, variables):
            self._kungfu_apply(list(grads), variables, trainable_variables)

    def _kungfu_apply(
        self, grads: list[Any], variables: list[Any], trainable_variables: Any
    ) -> None:
        keras_apply = super().apply
        if self.kungfu_accumulates():
            grads = self._kungfu_to_accumulate(grads, variables)
            return keras_apply(grads, trainable_variables)
        grads = self.kungfu_gradients(grads, variables)
        updated = [generations.native(v) for v in new_values.trained(grads, variables)]
        self._kungfu_update(grads, updated, lambda: keras_apply(grads, trainable_variables))

    def kungfu_gradients(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """The algorithm's gradients in place of these, unless they have been exchanged already."""
        if self.kungfu_state.takes_exchanged:
            return grads
        return self._kungfu_means(self._kungfu_completed(grads, variables), variables)

    @contextlib.contextmanager
    def kungfu_taking_exchanged(self) -> Iterator[None]:
        """Within it `apply` takes gradients that `kungfu_gradients` has returned."""
        self.kungfu_state.takes_exchanged = True
        try:
            yield
        finally:
            self.kungfu_state.takes_exchanged = False

    def kungfu_accumulates(self) -> bool:
        """Whether several steps make one update."""
        return bool(getattr(self, "gradient_accumulation_steps", None))

    def _kungfu_to_accumulate(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """This peer's gradients in a step, weighed by its samples before Keras adds others."""
        grads = self._kungfu_completed(grads, variables)
        self.kungfu_state.accumulated_variables = new_values.trained(grads, variables)
        grads = new_values.largest(self.kungfu_algorithm, grads, variables)
        is_own = self.kungfu_algorithm.applies_own_gradients
        grads = weighted(grads, variables, is_own=is_own)
        if not self.kungfu_algorithm.sums_steps:
            return grads
        mine = new_values.left_out(grads, variables)
        times = [_times(g, self.gradient_accumulation_steps) for g in mine]
        return new_values.put_back(times, grads, variables)

    def _clip_gradients(self, grads: Any) -> Any:
        if self.kungfu_accumulates():
            with sample_weights.unweighted():
                grads = self._kungfu_means(list(grads), self.kungfu_state.accumulated_variables)
        return super()._clip_gradients(grads)

    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        step = super()._backend_update_step
        if not self.kungfu_accumulates():
            return step(grads, trainable_variables, learning_rate)
        updated = [generations.native(v) for v in trainable_variables]
        self._kungfu_update(grads, updated, lambda: step(grads, trainable_variables, learning_rate))

    def _kungfu_completed(self, grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """As in `Wrapped`. New values stay as they are."""
        mine = new_values.left_out(grads, variables)
        return new_values.put_back(super()._kungfu_completed(mine, variables), grads, variables)

    def _kungfu_means(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """The algorithm's gradients in place of these; of new values the largest."""
        grads = new_values.largest(self.kungfu_algorithm, grads, variables)
        means = self._kungfu_exchange(
            new_values.left_out(grads, variables),
            [generations.native(v) for v in variables],
            self._kungfu_step(),
        )
        return new_values.put_back(means, grads, variables)

    def _kungfu_step(self) -> Any:
        """How many updates were made: a variable, or a tensor if gradients are accumulated."""
        return getattr(self.iterations, "value", self.iterations)


class Keras3WrappedInside(Keras3Copies, WrappedInside):
    """What `wrap` adds to a `keras.optimizers.LossScaleOptimizer` of Keras 3: see loss_scale.py."""


def weighted(grads: list[Any], variables: list[Any], *, is_own: bool) -> list[Any]:
    """The gradients times this peer's weight, before others are added. New values stay as they are.

    Args:
        grads: The gradients of a step.
        variables: The variables that they belong to.
        is_own: Whether each peer applies its own gradients, whatever the others' weights.
    """
    mine = new_values.left_out(grads, variables)
    mine = sample_weights.of_samples(mine) if is_own else local_variables.weighted(mine, variables)
    return new_values.put_back(mine, grads, variables)


def _times(gradient: Any, factor: int) -> Any:
    if gradient is None:
        return None
    values = values_of(gradient)
    return with_values(gradient, values * tf.cast(factor, values.dtype))
