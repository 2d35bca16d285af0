"""Optimizers of Keras 2 and tf-keras, the new ones and `keras.optimizers.legacy`.

Keras 2 combines the gradients of several replicas in `aggregate_gradients`. Ours exchanges them
there, before Keras' own method, which waits for all gradients even with one replica. Clipping comes
later. LossScaleOptimizer, too, looks for infinities later. So on an overflow all peers skip the
step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from kungfu_tf import context, errors
from kungfu_tf.exchange import whole_step
from kungfu_tf.exchange.accumulation import Accumulation
from kungfu_tf.exchange.wrapped import Wrapped
from kungfu_tf.replicas import local_variables, sample_weights
from kungfu_tf.upstream import generations


class Keras2Optimizer(Wrapped):
    """What `wrap` adds to a `keras.optimizers.Optimizer` of Keras 2."""

    def aggregate_gradients(self, grads_and_vars: Any) -> Any:
        """Keras' method, with gradients that have been exchanged."""
        return super().aggregate_gradients(self._kungfu_aggregate(grads_and_vars))

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Keras' method, with the algorithm around it."""
        pairs = self.kungfu_completed_pairs(grads_and_vars)
        with whole_step.of(self, [v for _, v in pairs]):
            return self._kungfu_apply(pairs, args, kwargs)

    def _kungfu_apply(self, pairs: list[Any], args: Any, kwargs: Any) -> Any:
        accumulation = self.kungfu_algorithm.accumulation
        is_update = self.kungfu_state.takes_exchanged or context.current().is_private
        if accumulation is not None and not is_update:
            return self._kungfu_accumulate(accumulation, pairs, args, kwargs)
        gradients = [g for g, _ in pairs if g is not None]
        variables = [v for g, v in pairs if g is not None]
        apply = super().apply_gradients

        def update() -> Any:
            with self.kungfu_taking_completed():
                return apply(pairs, *args, **kwargs)

        return self._kungfu_update(gradients, variables, update)

    def _kungfu_accumulate(
        self, accumulation: Accumulation, pairs: list[Any], args: Any, kwargs: Any
    ) -> Any:
        """Adds this step's gradients, weighed by its samples; the last step of several updates."""
        gradients, variables = [g for g, _ in pairs], [v for _, v in pairs]
        accumulation.add(local_variables.weighted(gradients, variables), variables)
        with tf.init_scope():
            generations.build(self, variables)

        def update() -> None:
            with sample_weights.unweighted(), self.kungfu_taking_completed():
                means = accumulation.gradients(variables)
                exchanged = self._kungfu_exchange(means, variables, self._kungfu_step())
                with self.kungfu_taking_exchanged():
                    pairs = zip(exchanged, variables, strict=True)
                    self.apply_gradients(pairs, *args, **kwargs)

        accumulation.then(update, lambda: self.iterations.assign_add(1))
        return self.iterations

    @contextlib.contextmanager
    def kungfu_taking_exchanged(self) -> Iterator[None]:
        """Within it gradients have been exchanged already."""
        state = self.kungfu_state
        before, state.takes_exchanged = state.takes_exchanged, True
        try:
            yield
        finally:
            state.takes_exchanged = before

    def _kungfu_aggregate(self, grads_and_vars: Any) -> list[Any]:
        pairs = self.kungfu_completed_pairs(grads_and_vars)
        if self.kungfu_state.takes_exchanged:
            return pairs
        if self.kungfu_algorithm.accumulation is not None and not context.current().is_private:
            raise errors.UnimplementedError(
                "several steps for an update do not go with a loss scale in Keras 2: its "
                "LossScaleOptimizer takes the gradients of each step for an update"
            )
        variables = [v for _, v in pairs]
        gradients = self._kungfu_exchange([g for g, _ in pairs], variables, self._kungfu_step())
        return list(zip(gradients, variables, strict=True))

    def kungfu_completed_pairs(self, grads_and_vars: Any) -> list[Any]:
        """The pairs, with zeros for gradients that only other peers have."""
        pairs = list(grads_and_vars)
        if self.kungfu_state.takes_completed:
            return pairs
        variables = [v for _, v in pairs]
        gradients = self._kungfu_completed([g for g, _ in pairs], variables)
        return list(zip(gradients, variables, strict=True))

    @contextlib.contextmanager
    def kungfu_taking_completed(self) -> Iterator[None]:
        """Within it gradients come from `kungfu_completed_pairs`; Keras may have left out None."""
        state = self.kungfu_state
        before, state.takes_completed = state.takes_completed, True
        try:
            yield
        finally:
            state.takes_completed = before


class Keras2LegacyOptimizer(Keras2Optimizer):
    """What `wrap` adds to a `keras.optimizers.legacy.Optimizer`."""

    def _aggregate_gradients(self, grads_and_vars: Any) -> list[Any]:
        return super()._aggregate_gradients(self._kungfu_aggregate(grads_and_vars))
