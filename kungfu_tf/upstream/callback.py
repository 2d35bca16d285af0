"""The base class of our callbacks, which work in `keras` and in `tf_keras`."""

from __future__ import annotations

import tensorflow as tf

from kungfu_tf.upstream import activation


class Callback(tf.keras.callbacks.Callback):
    """A callback of `tf.keras` that also answers the questions of tf-keras.

    Making one patches Keras (`activation`).
    """

    _supports_tf_logs = True  # a batch's logs may be tensors, which we do not read

    def __init__(self) -> None:
        super().__init__()
        activation.use(activation.KERAS)

    def _implements_train_batch_hooks(self) -> bool:
        return self._overrides("on_train_batch_begin") or self._overrides("on_train_batch_end")

    def _implements_test_batch_hooks(self) -> bool:
        return self._overrides("on_test_batch_begin") or self._overrides("on_test_batch_end")

    def _implements_predict_batch_hooks(self) -> bool:
        return self._overrides("on_predict_batch_begin") or self._overrides("on_predict_batch_end")

    def _overrides(self, hook: str) -> bool:
        return getattr(type(self), hook) is not getattr(tf.keras.callbacks.Callback, hook)
