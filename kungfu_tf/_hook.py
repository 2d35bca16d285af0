"""The base class of our hooks."""

from __future__ import annotations

import tensorflow as tf


class Hook(tf.compat.v1.train.SessionRunHook):
    """A hook whose sessions are ours.

    Once there is one, monitored sessions and Estimators are ours: they know these hooks, and so are
    loaded by none of them.

    Attributes:
        changes_peers: Whether others may take part after its `before_run`, which hooks of ours that
            do not are called after.
        follows: Whether others may take part in the session that it is in, because one of its
            hooks changes peers. The session says it before `begin`.
    """

    changes_peers = False
    follows = False

    def __init__(self) -> None:
        super().__init__()
        from kungfu_tf.session import patches

        patches.install(with_estimators=True)

    def close(self) -> None:
        """The session has ended, well or by an error, of which TensorFlow tells no hook."""
