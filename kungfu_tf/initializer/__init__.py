"""Equal variables on all peers: at the start, and checked while training."""

from kungfu_tf.initializer.broadcast import BroadcastGlobalVariablesOp, broadcast_variables
from kungfu_tf.initializer.callback import BroadcastGlobalVariablesCallback
from kungfu_tf.initializer.hook import BroadcastGlobalVariablesHook

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "BroadcastGlobalVariablesHook",
    "BroadcastGlobalVariablesOp",
    "broadcast_variables",
]
