"""Policies adapt a training while it runs."""

from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.noise_scale_batch_size import NoiseScaleBatchSizePolicy
from kungfu_tf.policy.scheduled_batch_size import ScheduledBatchSizePolicy
from kungfu_tf.policy.training import Training

__all__ = [
    "BasePolicy",
    "NoiseScaleBatchSizePolicy",
    "ScheduledBatchSizePolicy",
    "Training",
]
