"""KungFu's policies, and the hook that calls them."""

from kungfu.tensorflow.policy.base_policy import BasePolicy
from kungfu.tensorflow.policy.policy_hook import PolicyHook

__all__ = ["BasePolicy", "PolicyHook"]
