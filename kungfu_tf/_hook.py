"""The base class of our hooks."""

from __future__ import annotations

import tensorflow as tf


class Hook(tf.compat.v1.train.SessionRunHook):
    """A hook whose sessions are ours.

    Once there is one, monitored sessions and Estimators are ours: they know these hooks, and so are
    loaded by none of them.
    """

    def __init__(self) -> None:
        super().__init__()
        from kungfu_tf.session import replaced

        replaced.install(with_estimators=True)
