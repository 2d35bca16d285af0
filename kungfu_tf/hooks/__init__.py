"""Hooks of sessions and Estimators."""

from kungfu_tf.tf1.hooks.elastic import ElasticHook
from kungfu_tf.tf1.hooks.monitor import MonitorHook
from kungfu_tf.tf1.hooks.policy import PolicyHook

__all__ = ["ElasticHook", "MonitorHook", "PolicyHook"]
