"""The base class of our hooks."""

from __future__ import annotations

import tensorflow as tf

from kungfu_tf.upstream import activation


class Hook(tf.compat.v1.train.SessionRunHook):
    """A hook of kungfu_tf. Making one patches monitored sessions and Estimators (`activation`).

    Attributes:
        changes_peers: Whether the peers may change in its `before_run`. Such a hook is called
            before our other hooks.
        follows: Whether a hook of the same session may change the peers. It is set before `begin`.
    """

    changes_peers = False
    follows = False

    def __init__(self) -> None:
        super().__init__()
        activation.use(activation.ESTIMATORS)

    def close(self) -> None:
        """Called when the session ends, also after an error, of which TensorFlow tells no hook."""
