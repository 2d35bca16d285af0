"""Optimizers of `tf.compat.v1.train`, in graphs, functions and eager code."""

from __future__ import annotations

from typing import Any

from kungfu_tf import context
from kungfu_tf.exchange import union, whole_step
from kungfu_tf.exchange.wrapped import Wrapped
from kungfu_tf.ops import members
from kungfu_tf.replicas import local_variables


class V1Optimizer(Wrapped):
    """What `wrap` adds to a `tf.compat.v1.train.Optimizer`.

    TF1 programs clip between `compute_gradients` and `apply_gradients`, so the gradients are
    exchanged in the former. If a program computes them in another way (`tf.gradients`), they are
    exchanged in the latter. A program that calls `compute_gradients` for something else, such as a
    summary, must apply its result: gradients of the same variables count as exchanged.
    """

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[Any]:
        """TensorFlow's method, which returns exchanged gradients."""
        pairs = super().compute_gradients(*args, **kwargs)
        self.kungfu_state.computed.update(v.ref() for _, v in pairs)
        return self._kungfu_exchange_pairs(pairs)

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """TensorFlow's method, with the algorithm around it."""
        pairs = list(grads_and_vars)
        computed = self.kungfu_state.computed
        others = [i for i, (_, v) in enumerate(pairs) if v.ref() not in computed]
        exchanged = self._kungfu_exchange_pairs([pairs[i] for i in others])
        for i, pair in zip(others, exchanged, strict=True):
            pairs[i] = pair
        computed.difference_update(v.ref() for _, v in pairs)
        gradients = [g for g, _ in pairs if g is not None]
        variables = [v for g, v in pairs if g is not None]
        update = super().apply_gradients
        with context.within(members=_members_of(pairs)), whole_step.of(self, variables):
            return self._kungfu_update(gradients, variables, lambda: update(pairs, *args, **kwargs))

    def _kungfu_exchange_pairs(self, pairs: list[Any]) -> list[Any]:
        variables = [v for _, v in pairs]
        gradients = self._kungfu_completed([g for g, _ in pairs], variables)
        gradients = self._kungfu_exchange(gradients, variables)
        return list(zip(gradients, variables, strict=True))


def _members_of(pairs: list[Any]) -> int:
    """A number for the updated variables, in which peers of a TF1 graph must agree."""
    shared = [(g, v) for g, v in pairs if not local_variables.is_local(v)]
    return members.identity([v for _, v in shared], union.kinds_of([g for g, _ in shared]))
