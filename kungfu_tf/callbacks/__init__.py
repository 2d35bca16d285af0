"""Keras callbacks."""

from kungfu_tf.initializer import BroadcastGlobalVariablesCallback

__all__ = ["BroadcastGlobalVariablesCallback"]
