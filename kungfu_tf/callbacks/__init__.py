"""Keras callbacks."""

from kungfu_tf.callbacks.learning_rate_schedule import LearningRateScheduleCallback
from kungfu_tf.callbacks.learning_rate_warmup import LearningRateWarmupCallback
from kungfu_tf.callbacks.scaled_rate import scale_learning_rate
from kungfu_tf.elastic.callback import ElasticCallback
from kungfu_tf.fit.metric_average import MetricAverageCallback
from kungfu_tf.fit.monitor import MonitorCallback
from kungfu_tf.fit.policies import PolicyCallback
from kungfu_tf.initializer import BroadcastGlobalVariablesCallback

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
