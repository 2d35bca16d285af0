"""Optimizers of Keras 3 whose updates parameter servers make, each of its own variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import context, peer
from kungfu_tf.exchange.keras3_shards import Keras3Shards
from kungfu_tf.upstream import generations


class Keras3Served(Keras3Shards):
    """Mixed into the class of an optimizer of Keras 3 before it is wrapped.

    Its algorithm has `shards`, and `exchange` in place of an update.
    """

    def build(self, variables: Sequence[Any]) -> None:
        """Keras' method, which creates the slots."""
        if self.built:
            return
        super().build(variables)
        native = [generations.native(v) for v in variables]
        self.kungfu_algorithm.deal(native, self.kungfu_update)

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Keras' method, which makes an update. Here the step pushes its gradients, and pulls."""
        if peer.is_single_process() or context.current().is_private:
            super().apply(grads, trainable_variables)
            return
        given = self._trainable_variables if trainable_variables is None else trainable_variables
        with tf.init_scope():
            self.build(list(given))
        self.kungfu_algorithm.exchange(list(grads), [generations.native(v) for v in given])

    def kungfu_update(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Makes an update of variables of this peer, `tf.Variable`s."""
        keras = {generations.native(v).ref(): v for v in self._trainable_variables}
        super().apply(list(gradients), [keras[v.ref()] for v in variables])
