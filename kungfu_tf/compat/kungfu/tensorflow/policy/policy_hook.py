"""Calls KungFu's policies as policies of kungfu_tf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from kungfu.python._taking_in import come_in_by_hooks
from kungfu.tensorflow.variables import (
    GraphKeys,
    create_global_variable,
    eval_batch_size,
    get_or_create_batch_size,
)

from kungfu_tf import hooks, peer, policy
from kungfu_tf.replicas import gates

__all__ = ["PolicyHook"]


class PolicyHook(hooks.PolicyHook):
    """Calls policies while a session trains; an epoch is one of all peers' samples.

    A change that a policy makes to the variable of the batch size is made as rank 0's policies want
    it, on all peers. Policies may change the number of peers: newcomers come in before a step, in
    which policies share the variables. Those that leave end their session as if at the data's end.

    Args:
        policies: The policies.
        epoch_size: How many samples an epoch has, of all peers together.
        epoch_num: How many epochs there are.
        init_batch_size: The batch of one peer, at first; None: what the program has made.
    """

    def __init__(
        self,
        policies: Sequence[Any],
        epoch_size: int,
        epoch_num: int,
        init_batch_size: int | None = None,
    ) -> None:
        come_in_by_hooks()
        self._theirs = policies
        self._adapted = [_Adapted(one) for one in policies]
        self._init_batch_size = init_batch_size
        self._total_samples = int(epoch_size * epoch_num)
        self.changes_peers = peer.launched() and peer.elastic()
        self._ended: Any = None  # the run of a step that policies have not ended
        super().__init__(self._adapted, epoch_size, epoch_num, init_batch_size or 1)

    @property
    def policies(self) -> Sequence[Any]:
        """The policies, as given."""
        return self._theirs

    def begin(self) -> None:
        """Lets policies add to the graph, which is finished afterwards."""
        get_or_create_batch_size(self._init_batch_size)
        create_global_variable(GraphKeys.TOTAL_SAMPLES, [], tf.int64, init=self._total_samples)
        super().begin()
        for one in self._theirs:
            one.before_train()

    def before_run(self, run_context: Any) -> None:
        """Lets policies end the step before, in which peers may come and go, and begin this one."""
        self._end_step()
        if peer.launched() and peer.joining() and gates.is_step(run_context):
            peer.resize()
        super().before_run(run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Lets policies end the step: now, or before the next one if peers may come and go."""
        if self.changes_peers and self._is_trained and not self._is_last_step():
            self._ended = run_context
        else:
            super().after_run(run_context, run_values)

    def end(self, session: Any) -> None:
        """Lets policies end the training."""
        if not peer.detached():
            self._end_step()
        super().end(session)

    def get_batch_size(self, sess: Any) -> Any:
        """Returns the batch size of one peer."""
        return eval_batch_size(sess)

    def _end_step(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            super().after_run(ended, None)

    def _is_last_step(self) -> bool:
        training = self._training
        samples = training.trained_samples + training.batch_size * training.size
        return bool(samples >= self._total_samples)

    def _call(self, method: str) -> None:
        self._policies.call(method, self._training)
        if peer.detached():
            self._training.session._kungfu_ended = True
            raise tf.errors.OutOfRangeError(None, None, "this peer takes no part any more")
        if self._peers == peer.membership_version():  # or newcomers agree, too, before a step
            self._policies.agree(self._training)


class _Adapted(policy.BasePolicy):
    """A policy of KungFu's as one of kungfu_tf's."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def before_epoch(self, training: Any) -> None:
        self._call("before_epoch", training)

    def before_step(self, training: Any) -> None:
        self._call("before_step", training)

    def after_step(self, training: Any) -> None:
        self._call("after_step", training)

    def after_epoch(self, training: Any) -> None:
        self._call("after_epoch", training)

    def after_train(self, training: Any) -> None:
        self._call("after_train", training)

    def _call(self, method: str, training: Any) -> None:
        before = training.batch_size
        getattr(self._theirs, method)(training.session)
        after = int(eval_batch_size(training.session))
        if after != before:
            training.change_batch_size(before)  # until all know what rank 0 wants
            training.set_batch_size(after)
