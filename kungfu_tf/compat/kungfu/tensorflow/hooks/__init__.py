"""KungFu's hooks for sessions and Estimators."""

from kungfu.tensorflow.policy import PolicyHook

from kungfu_tf.hooks import ElasticHook

__all__ = ["ElasticHook", "PolicyHook"]
