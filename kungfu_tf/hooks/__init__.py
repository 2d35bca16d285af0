"""Hooks of sessions and Estimators."""

from kungfu_tf.hooks.elastic import ElasticHook
from kungfu_tf.hooks.monitor import MonitorHook
from kungfu_tf.hooks.policy import PolicyHook

__all__ = ["ElasticHook", "MonitorHook", "PolicyHook"]
