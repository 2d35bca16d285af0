"""Equal variables on all peers: at the start, and checked while training."""

from kungfu_tf.keras.callbacks.broadcast import BroadcastGlobalVariablesCallback
from kungfu_tf.replicas.broadcast import BroadcastGlobalVariablesOp, broadcast_variables
from kungfu_tf.tf1.hooks.broadcast import BroadcastGlobalVariablesHook

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "BroadcastGlobalVariablesHook",
    "BroadcastGlobalVariablesOp",
    "broadcast_variables",
]
