"""Keras in the graphs of TensorFlow 1, which there is up to TF 2.15."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf.initializer import BroadcastGlobalVariablesOp

__all__ = ["BroadcastInGraph"]


class BroadcastInGraph(tf.keras.callbacks.Callback):
    """Gives all peers rank 0's variables, the optimizer's included, before the first step."""

    def on_train_begin(self, logs: Any = None) -> None:
        del logs
        tf.compat.v1.keras.backend.get_session().run(BroadcastGlobalVariablesOp())
