"""Keras callbacks."""

from kungfu_tf.callbacks.metric_average import MetricAverageCallback
from kungfu_tf.initializer import BroadcastGlobalVariablesCallback

__all__ = ["BroadcastGlobalVariablesCallback", "MetricAverageCallback"]
