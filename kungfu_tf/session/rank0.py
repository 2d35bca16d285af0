"""A hook that writes for all peers: it runs where rank 0 is, which may be another one later."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import config, peer
from kungfu_tf.session.first_run import extended

v1 = tf.compat.v1


class OfRank0(tf.compat.v1.train.SessionRunHook):
    """Has a hook run from when on this peer is rank 0.

    One that becomes it while it trains goes on with the files of the one that has left: for the
    hook the session begins there, so that a saver saves at once.

    Args:
        hook: Of TensorFlow or of Estimator.

    Attributes:
        hook: The same.
        has_begun: Whether it runs.
    """

    def __init__(self, hook: Any) -> None:
        self.hook = hook
        self.has_begun = False

    def begin(self) -> None:
        if peer.is_root():
            self.has_begun = True
            self.hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._coord = coord
        if self.has_begun:
            self.hook.after_create_session(session, coord)

    def before_run(self, run_context: Any) -> Any:
        self._look(run_context.session)
        return self.hook.before_run(run_context) if self.has_begun else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self.has_begun:
            self.hook.after_run(run_context, run_values)

    def end(self, session: Any) -> None:
        self._look(session)
        if self.has_begun and not (_is_saver(self.hook) and _others_go_on()):
            self.hook.end(session)

    def _look(self, session: Any) -> None:
        """Begins if this peer has become rank 0."""
        if self.has_begun or not peer.is_root():
            return
        self.has_begun = True
        with session.graph.as_default(), extended(session.graph):
            self.hook.begin()
            if _is_saver(self.hook):
                _adopt_checkpoints(self.hook)
            self.hook.after_create_session(session, self._coord)


def _is_saver(hook: Any) -> bool:
    return isinstance(hook, v1.train.CheckpointSaverHook)


def _others_go_on() -> bool:
    """Whether this peer has left others, of whom one saves in its place."""
    return peer.detached() and not config.RELOADS.get()


def _adopt_checkpoints(saver: Any) -> None:
    """It keeps, and removes, those that are there, as one does that was restored."""
    known = v1.train.get_checkpoint_state(saver._checkpoint_dir)
    if known is not None:
        saver._get_saver().recover_last_checkpoints(known.all_model_checkpoint_paths)
