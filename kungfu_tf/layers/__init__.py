"""Layers whose result depends on the samples of all peers."""

from kungfu_tf.keras.layers.batch_norm import SyncBatchNormalization, synchronize

__all__ = ["SyncBatchNormalization", "synchronize"]
