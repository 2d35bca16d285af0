"""Calls KungFu's policies as policies of kungfu_tf."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kungfu_tf import hooks, policy, variables


class PolicyHook(hooks.PolicyHook):
    """Calls policies while a session trains; an epoch is one of all peers' samples.

    A change that a policy makes to the variable of the batch size is made as rank 0's policies want
    it, on all peers.
    """

    def __init__(
        self, policies: Iterable[Any], epoch_size: int, epoch_num: int, init_batch_size: int
    ) -> None:
        adapted = [_Adapted(one) for one in policies]
        self._adapted = adapted
        super().__init__(adapted, epoch_size, epoch_num, init_batch_size)

    def begin(self) -> None:
        """Lets policies add to the graph, which is finished afterwards."""
        super().begin()
        for one in self._adapted:
            one.prepare()


class _Adapted(policy.BasePolicy):
    """A policy of KungFu's as one of kungfu_tf's."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def prepare(self) -> None:
        self._theirs.before_train()

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
        after = variables.eval_batch_size(session=training.session)
        if after != before:
            training.change_batch_size(before)  # until all know what rank 0 wants
            training.set_batch_size(after)
