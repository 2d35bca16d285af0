"""Calls KungFu's policies as policies of kungfu_tf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from kungfu.python._taking_in import wait_for_nobody
from kungfu.tensorflow.variables import (
    GraphKeys,
    create_global_variable,
    eval_batch_size,
    get_or_create_batch_size,
)

from kungfu_tf import hooks, peer, policy

__all__ = ["PolicyHook"]


class PolicyHook(hooks.PolicyHook):
    """Calls policies while a session trains; an epoch is one of all peers' samples.

    A change that a policy makes to the variable of the batch size is made as rank 0's policies want
    it, on all peers. If a policy has made the job smaller, those that have left end their session
    as if their data had ended. To make it larger, the session needs an elastic hook, too.

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
        wait_for_nobody()
        self._theirs = policies
        self._adapted = [_Adapted(one) for one in policies]
        self._init_batch_size = init_batch_size
        self._total_samples = int(epoch_size * epoch_num)
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

    def get_batch_size(self, sess: Any) -> Any:
        """Returns the batch size of one peer."""
        return eval_batch_size(sess)

    def _call(self, method: str) -> None:
        self._policies.call(method, self._training)
        if peer.detached():
            self._training.session._kungfu_ended = True
            raise tf.errors.OutOfRangeError(None, None, "this peer takes no part any more")
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
