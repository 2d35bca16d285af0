"""Keras callbacks."""

from kungfu_tf.keras.callbacks.broadcast import BroadcastGlobalVariablesCallback
from kungfu_tf.keras.callbacks.elastic import ElasticCallback
from kungfu_tf.keras.callbacks.learning_rate_schedule import LearningRateScheduleCallback
from kungfu_tf.keras.callbacks.learning_rate_warmup import LearningRateWarmupCallback
from kungfu_tf.keras.callbacks.metric_average import MetricAverageCallback
from kungfu_tf.keras.callbacks.monitor import MonitorCallback
from kungfu_tf.keras.callbacks.policies import PolicyCallback
from kungfu_tf.keras.callbacks.scaled_rate import scale_learning_rate

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "ElasticCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
    "MonitorCallback",
    "PolicyCallback",
    "scale_learning_rate",
]
