"""The base class of our hooks."""

from __future__ import annotations

import tensorflow as tf

from kungfu_tf.upstream import activation


class Hook(tf.compat.v1.train.SessionRunHook):
    """A hook whose sessions are ours.

    Once there is one, monitored sessions and Estimators are ours.

    Attributes:
        changes_peers: Whether others may take part after its `before_run`, which hooks of ours that
            do not are called after.
        follows: Whether the peers of its session may change, because of one of the session's hooks.
            The session says it before `begin`.
    """

    changes_peers = False
    follows = False

    def __init__(self) -> None:
        super().__init__()
        activation.use(activation.ESTIMATORS)

    def close(self) -> None:
        """The session has ended, well or by an error, of which TensorFlow tells no hook."""
