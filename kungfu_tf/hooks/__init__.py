"""Hooks for sessions and Estimators of TF1."""

from kungfu_tf.hooks.policy import PolicyHook

__all__ = ["PolicyHook"]
