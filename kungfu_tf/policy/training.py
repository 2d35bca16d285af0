"""The training as policies see it, and the changes that they can make."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Sequence
from typing import Any

from kungfu_tf import peer
from kungfu_tf.monitor import measurements
from kungfu_tf.native import environment


class Training:
    """A training that is under way.

    What rank 0's policies ask for is done when all policies have been called. So peers may measure
    different things and still do the same.

    Attributes:
        epoch: The current epoch, from 0.
        step: The number of steps so far.
        last_steps: How many of them the last call of the train function made.
        trained_samples: The number of samples that all peers have trained on.
        step_time: Seconds that the last step took on this peer.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.step = 0
        self.last_steps = 1
        self.trained_samples = 0
        self.step_time = 0.0
        self.wanted_batch_size: int | None = None
        self.wanted_learning_rate: float | None = None
        self.wanted_strategy: str | None = None
        self.wanted_tree: list[int] | None = None
        self.wanted_size: int | None = None
        self.wants_to_stop = False
        self._asked: int | None = None
        self._began = 0.0
        self._is_watched = False  # its throughput
        self._throughput = 0.0
        self._moved = measurements.moved()

    @property
    def size(self) -> int:
        """The number of peers."""
        return peer.size()

    @property
    def batch_size(self) -> int:
        """The number of samples in a batch of one peer."""
        raise NotImplementedError

    @property
    def learning_rate(self) -> float:
        """The learning rate of the optimizer."""
        raise NotImplementedError

    @property
    def noise_scale(self) -> float | None:
        """The gradient noise scale in samples, the same on all peers.

        `MonitorGradientNoiseScaleOptimizer` measures it. None as long as there is no value.
        """
        return self._metric("noise_scale")

    @property
    def gradient_variance(self) -> float | None:
        """The variance that `MonitorGradientVarianceOptimizer` measures, or None."""
        return self._metric("gradient_variance")

    @property
    def throughput(self) -> float:
        """The throughput of this peer's monitored operations in the last step.

        In bytes per second of the time in which some were running; 0 if there were none. It is
        measured from the first call on; that call returns the throughput of all steps so far.
        """
        if not self._is_watched:
            self._is_watched = True
            self._throughput = measurements.throughput_since(self._moved)
        return self._throughput

    @property
    def egress_rates(self) -> list[float]:
        """The bytes per second sent to each peer, by rank."""
        return [one.egress_rate for one in measurements.traffic()]

    def has_made(self, interval: int) -> bool:
        """Whether the last step, or one of those made with it, was a multiple of `interval`.

        All peers get the same answer, even those that have just joined, and with
        `steps_per_execution`. So what they do on it they may do together.

        Args:
            interval: A number of steps.
        """
        return self.step % interval < self.last_steps

    def set_batch_size(self, size: int) -> None:
        """Changes the size of all batches that no peer has begun to read.

        Args:
            size: The number of samples in a batch of one peer.

        Raises:
            ValueError: If `size` is not a positive integer.
        """
        self.wanted_batch_size = _positive(size, "a batch size")

    def set_learning_rate(self, rate: float) -> None:
        """Changes the learning rate from the next step on.

        Raises:
            ValueError: If `rate` is not finite, or negative.
            Exception: If the optimizer's learning rate cannot be read.
        """
        _ = self.learning_rate
        if not math.isfinite(rate) or rate < 0:
            raise ValueError(f"a learning rate is finite and not negative, not {rate!r}")
        self.wanted_learning_rate = float(rate)

    def set_strategy(self, strategy: str) -> None:
        """Changes the strategy, as `kungfu_tf.ops.set_strategy` does.

        Args:
            strategy: Its name.

        Raises:
            ValueError: If there is no such strategy.
        """
        self.wanted_strategy, self.wanted_tree = strategy_named(strategy), None

    def set_tree(self, tree: Sequence[int]) -> None:
        """Sends all data along a tree, as `kungfu_tf.ops.set_tree` does.

        Args:
            tree: The parent of each rank.

        Raises:
            ValueError: If it is not a tree of all ranks.
        """
        parents = [int(parent) for parent in tree]
        if len(parents) != self.size:
            raise ValueError(f"a tree of {len(parents)} ranks, of {self.size} peers: {parents}")
        if not _is_tree(parents):
            raise ValueError(f"these parents of the ranks 0, 1, ... are no tree: {parents}")
        self.wanted_strategy, self.wanted_tree = None, parents

    def resize(self, n: int) -> None:
        """Asks for another number of peers; they join or leave some steps later.

        The training must be elastic: `kungfu_tf.elastic.fit`, or a session with a
        `kungfu_tf.hooks.ElasticHook`. What rank 0 asked for last counts, once all policies have
        been called; asking for the same number again changes nothing. If there cannot be that many
        peers, or the training is not elastic, it then ends with a FailedPreconditionError.

        Args:
            n: The number of peers, from 1 to the slots of `kungfu-run -H`.

        Raises:
            ValueError: If `n` is not a positive integer.
        """
        self.wanted_size = _positive(n, "a number of peers")

    def stop(self) -> None:
        """Ends the training on all peers."""
        self.wants_to_stop = True

    def begin_step(self) -> None:
        """To be called before each step."""
        if self._is_watched:
            self._moved = measurements.moved()
        self._began = time.perf_counter()

    def end_step(self) -> None:
        """To be called after each step."""
        self.step_time = time.perf_counter() - self._began
        if self._is_watched:
            self._throughput = measurements.throughput_since(self._moved)

    def measured(self) -> dict[str, Any]:
        """The optimizers' measurements by name; NaN means no value."""
        raise NotImplementedError

    def change_batch_size(self, size: int) -> None:
        """Sets the batch size on which all peers have agreed."""
        raise NotImplementedError

    def change_learning_rate(self, rate: float) -> None:
        """Sets the learning rate on which all peers have agreed."""
        raise NotImplementedError

    def propose_size(self, size: int) -> None:
        """Asks for the number of peers on which all peers have agreed; only rank 0 does ask.

        Raises:
            FailedPreconditionError: If there cannot be that many, or the training is not elastic.
        """
        before, self._asked = self._asked, size
        stays = size == peer.size() and not peer.elastic()
        if peer.is_root() and size != before and not stays:
            peer.propose_new_size(size)

    def end(self) -> None:
        """Ends the training, as all peers have agreed."""
        raise NotImplementedError

    def _metric(self, name: str) -> float | None:
        value = float(self.measured().get(name, math.nan))
        return None if math.isnan(value) else value


def strategy_named(name: str) -> str:
    """The name of a strategy, in capitals.

    Raises:
        ValueError: If there is no such strategy.
    """
    names = environment.strategies()
    if str(name).upper() not in names:
        raise ValueError(f"a strategy is {' or '.join(names)}, not {name!r}")
    return name.upper()


def _positive(number: int, what: str) -> int:
    """The number as an int; it may be one of NumPy's."""
    is_integer = hasattr(number, "__index__") and not isinstance(number, bool)
    if not is_integer or operator.index(number) < 1:
        raise ValueError(f"{what} is a positive integer, not {number!r}")
    return operator.index(number)


def _is_tree(parents: list[int]) -> bool:
    """Whether all ranks lead to one root, which is its own parent."""
    reached = {rank for rank, parent in enumerate(parents) if rank == parent}
    if len(reached) != 1:
        return False
    while more := {rank for rank, parent in enumerate(parents) if parent in reached} - reached:
        reached |= more
    return len(reached) == len(parents)
