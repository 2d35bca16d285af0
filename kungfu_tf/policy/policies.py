"""Calls the policies of a training, and does what they ask for on all peers alike."""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from tensorflow.python.eager import context

from kungfu_tf import errors, ops, peer
from kungfu_tf.policy.base import BasePolicy
from kungfu_tf.policy.training import Training

_Array = np.ndarray[Any, np.dtype[Any]]

_log = logging.getLogger(__name__)


class Policies:
    """The policies of a training, in the same order on all peers.

    Args:
        policies: Must be of the same classes on every peer.
        on_error: What happens if one raises, or wants more peers than there can be. "stop" ends the
            training with PolicyError on all peers; "continue" logs the error and stops calling
            that policy on all peers.

    Raises:
        TypeError: If something is not a BasePolicy.
        ValueError: If `on_error` is anything else, or there are too many policies.
    """

    def __init__(self, policies: Iterable[BasePolicy], on_error: str) -> None:
        self._policies = dict(enumerate(policies))
        for policy in self._policies.values():
            if not isinstance(policy, BasePolicy):
                raise TypeError(f"not a kungfu_tf.policy.BasePolicy: {policy!r}")
        if on_error not in ("stop", "continue"):
            raise ValueError(f"on_error is 'stop' or 'continue', not {on_error!r}")
        if len(self._policies) > _MOST:
            raise ValueError(f"{len(self._policies)} policies are more than {_MOST}")
        self._kinds = [type(policy).__name__ for policy in self._policies.values()]
        self._on_error = on_error
        self._failed = 0  # one bit per policy
        self._resizer = (
            0,
            "",
        )  # the policy that last asked for other peers, and its method

    @property
    def kinds(self) -> list[str]:
        """The names of their classes, including those that are no longer called."""
        return self._kinds

    def check(self) -> None:
        """Compares the classes between the peers. All peers call it before any policy is called.

        Raises:
            ValueError: On every peer, if they differ.
        """
        codes = _of_all([zlib.crc32(repr(self._kinds).encode())])[:, 0]
        others = np.flatnonzero(codes != codes[peer.rank()]).tolist()
        if others:
            raise ValueError(
                "policies must be of the same kinds on all peers, in the same order; here, on rank "
                f"{peer.rank()}, they are {self._kinds}, and others on {peer.names_of(others)}"
            )

    def call(self, method: str, training: Training) -> None:
        """Calls a method of each policy.

        Raises:
            PolicyError: If one raises, and that ends the training.
        """
        for number, policy in self._policies.items():
            if self._failed >> number & 1:
                continue
            what, before = f"{type(policy).__name__}.{method}", training.wanted_size
            try:
                getattr(policy, method)(training)
            except Exception as error:
                self._fail(number, what, error)
            if training.wanted_size != before:
                self._resizer = number, what

    def agree(self, training: Training) -> None:
        """Does what rank 0's policies ask for. All peers call it at the same point.

        Args:
            training: The training that they have been called with.

        Raises:
            PolicyError: If there cannot be as many peers, and that ends the training.
        """
        rows = _of_all([*_wishes(training), self._failed])
        self._leave_out(rows[:, -1])
        size, rate, stops, has_strategy, has_tree, peers, _ = rows[0]
        if not math.isnan(size):
            training.change_batch_size(int(size))
        if not math.isnan(rate):
            training.change_learning_rate(float(rate))
        if not math.isnan(peers):
            self._propose(training, int(peers))
        if stops:
            training.end()
        if has_strategy:
            name = (training.wanted_strategy or "").encode().ljust(_LONGEST_NAME)[:_LONGEST_NAME]
            _change(ops.set_strategy, np.frombuffer(name, np.uint8), lambda a: a.tobytes().strip())
        if has_tree:
            tree = training.wanted_tree or [0] * training.size
            _change(ops.set_tree, np.array(tree, np.int32), lambda a: a)
        training.wanted_batch_size = training.wanted_learning_rate = training.wanted_size = None
        training.wanted_strategy = training.wanted_tree = None
        training.wants_to_stop = False

    def _propose(self, training: Training, size: int) -> None:
        """Rank 0 asks for another number of peers, and all learn whether that failed."""
        try:
            training.propose_size(size)
        except errors.KungfuError as error:
            self._fail(*self._resizer, error)
        self._leave_out(_of_all([self._failed])[:, 0])

    def _fail(self, number: int, what: str, error: Exception) -> None:
        what = f"{what}: {type(error).__name__}: {error}"
        if self._on_error == "stop":
            raise errors.PolicyError(what) from error
        self._failed |= 1 << number
        _log.error("rank %d goes on without a policy: %s", peer.rank(), what, exc_info=error)

    def _leave_out(self, failed_of_all: Iterable[float]) -> None:
        for failed in failed_of_all:
            self._failed |= int(failed)
        self._policies = {n: p for n, p in self._policies.items() if not self._failed >> n & 1}


_MOST = 32
_LONGEST_NAME = 64


def newest_of_all(number: int) -> int:
    """The largest of the peers' numbers. All peers must call it."""
    return int(_of_all([number]).max())


def count_peers() -> int:
    """How many peers there are, the same number on all. All peers must call it."""
    return len(_of_all([0.0])) if peer.survives() else peer.size()


def _wishes(training: Training) -> list[float]:
    size, rate = training.wanted_batch_size, training.wanted_learning_rate
    wished = [math.nan if value is None else float(value) for value in (size, rate)]
    strategy, tree = training.wanted_strategy, training.wanted_tree
    flags = map(float, (training.wants_to_stop, strategy is not None, tree is not None))
    peers = math.nan if training.wanted_size is None else float(training.wanted_size)
    return [*wished, *flags, peers]


def _change(change: Callable[[Any], Any], wanted: _Array, read: Callable[[_Array], Any]) -> None:
    """Makes the change that rank 0 wants."""
    if peer.is_single_process():
        return
    with context.eager_mode():
        change(read(np.asarray(ops.broadcast(wanted, name="policies/topology"))))


def _of_all(numbers: list[float]) -> _Array:
    """One row for each peer."""
    mine = np.array(numbers, np.float64)
    if peer.is_single_process():
        return mine[np.newaxis]
    with context.eager_mode():
        return np.asarray(ops.all_gather(mine, name="policies"))
