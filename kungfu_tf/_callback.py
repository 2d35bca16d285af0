"""The base class of our callbacks, which work in `keras` and in `tf_keras`."""

from __future__ import annotations

import tensorflow as tf


class Callback(tf.keras.callbacks.Callback):
    """A callback of `tf.keras` that answers what tf-keras asks of its own.

    Once there is one, `fit` is ours: it knows these callbacks, and so is loaded by none of them.
    """

    _supports_tf_logs = True  # never read a batch's logs: they may be tensors

    def __init__(self) -> None:
        super().__init__()
        install()

    def _implements_train_batch_hooks(self) -> bool:
        return self._overrides("on_train_batch_begin") or self._overrides("on_train_batch_end")

    def _implements_test_batch_hooks(self) -> bool:
        return self._overrides("on_test_batch_begin") or self._overrides("on_test_batch_end")

    def _implements_predict_batch_hooks(self) -> bool:
        return self._overrides("on_predict_batch_begin") or self._overrides("on_predict_batch_end")

    def _overrides(self, hook: str) -> bool:
        return getattr(type(self), hook) is not getattr(tf.keras.callbacks.Callback, hook)


def install() -> None:
    """Makes `fit` ours. For models that are trained without us it does what it did."""
    from kungfu_tf.fit import patches

    patches.install()
