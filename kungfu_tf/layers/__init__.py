"""Layers whose result depends on the samples of all peers, and layers of one peer's own."""

from kungfu_tf.keras.layers.batch_norm import SyncBatchNormalization, synchronize
from kungfu_tf.keras.layers.local import local

__all__ = ["SyncBatchNormalization", "local", "synchronize"]
