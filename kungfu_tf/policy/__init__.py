"""Policies adapt a training while it runs."""

from kungfu_tf.policy.ada_scale import AdaScalePolicy
from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.goodput import GoodputPolicy
from kungfu_tf.policy.interference_strategy import InterferenceStrategyPolicy
from kungfu_tf.policy.latency_tree import LatencyTreePolicy
from kungfu_tf.policy.noise_scale_batch_size import NoiseScaleBatchSizePolicy
from kungfu_tf.policy.scheduled_batch_size import ScheduledBatchSizePolicy
from kungfu_tf.policy.scheduled_cluster_size import ScheduledClusterSizePolicy
from kungfu_tf.policy.training import Training

__all__ = [
    "AdaScalePolicy",
    "BasePolicy",
    "GoodputPolicy",
    "InterferenceStrategyPolicy",
    "LatencyTreePolicy",
    "NoiseScaleBatchSizePolicy",
    "ScheduledBatchSizePolicy",
    "ScheduledClusterSizePolicy",
    "Training",
]
