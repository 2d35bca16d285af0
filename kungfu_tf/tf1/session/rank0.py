"""Runs a hook that writes for all peers on rank 0, which may be another peer later."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import config, peer
from kungfu_tf.tf1.session import hook_kinds
from kungfu_tf.tf1.session.graph import extended

v1 = tf.compat.v1


class RunsOnRank0(tf.compat.v1.train.SessionRunHook):
    """Runs a hook once this peer is rank 0.

    A peer that becomes rank 0 while it trains takes over the files of the one that has left. For
    the hook, the session begins at that point; so a saver saves at once.

    Args:
        hook: A hook of TensorFlow or Estimator.
        meanwhile: A hook that runs as long as this peer is not rank 0.

    Attributes:
        hook: The hook.
    """

    def __init__(self, hook: Any, meanwhile: Any = None) -> None:
        self.hook = hook
        self._now = meanwhile or v1.train.SessionRunHook()

    @property
    def has_begun(self) -> bool:
        """Whether the hook runs here."""
        return self._now is self.hook

    def begin(self) -> None:
        if peer.is_root():
            self._now = self.hook
        self._now.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._coord = coord
        self._now.after_create_session(session, coord)

    def before_run(self, run_context: Any) -> Any:
        self._begin_if_root(run_context.session)
        return self._now.before_run(run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._now.after_run(run_context, run_values)

    def end(self, session: Any) -> None:
        self._begin_if_root(session)
        if not (_is_followed_up(self.hook) and _others_go_on()):
            self._now.end(session)

    def _begin_if_root(self, session: Any) -> None:
        """Begins the hook if this peer has become rank 0."""
        if self.has_begun or not peer.is_root():
            return
        self._now = self.hook
        with session.graph.as_default(), extended(session.graph):
            self.hook.begin()
            if hook_kinds.is_saver(self.hook):
                _adopt_checkpoints(self.hook)
            self.hook.after_create_session(session, self._coord)


def _is_followed_up(hook: Any) -> bool:
    """Whether the next rank 0 begins by doing its last work, in the same folder."""
    return hook_kinds.is_saver(hook) or hook_kinds.is_evaluator(hook)


def _others_go_on() -> bool:
    """Whether this peer has left, and another one continues in its place."""
    return peer.detached() and not config.RELOADS.get()


def _adopt_checkpoints(saver: Any) -> None:
    """Makes it keep and remove the checkpoints that are there, as if it had been restored."""
    known = v1.train.get_checkpoint_state(saver._checkpoint_dir)
    if known is not None:
        saver._get_saver().recover_last_checkpoints(known.all_model_checkpoint_paths)
