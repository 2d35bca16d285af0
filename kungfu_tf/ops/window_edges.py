"""The ranks that a window leads to and from, and their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import errors, peer
from kungfu_tf.topology import Topology

Weights = Any  # a number for all ranks, or a dict {rank: weight}, or None for the default


class Edges:
    """Those of this peer, in any step of a topology's cycle.

    Args:
        name: That of the window, for messages.
        topology: The topology.

    Attributes:
        rank: This peer's.
        sources: The ranks that it takes from, ascending.
        targets: The ranks that take from it, ascending.
    """

    def __init__(self, name: str, topology: Topology) -> None:
        self._name = name
        self._topology = topology
        self._size = peer.size()
        self.rank = peer.rank()
        steps = range(topology.length(self._size))
        cycle = [topology.neighbors(step, self.rank, self._size) for step in steps]
        self.sources = sorted({rank for step in cycle for rank in step.sources})
        self.targets = sorted({rank for step in cycle for rank in step.targets})

    def hold(self) -> bool:
        """Whether this peer still has its rank, among as many peers."""
        return (self.rank, self._size) == (peer.rank(), peer.size())

    def of_topology(self, step: Any, side: str) -> tuple[Any, list[Any]]:
        """The weight of this peer, and of each of its sources or targets, in a step.

        Args:
            step: An integer.
            side: "sources" or "targets".
        """
        ranks = getattr(self, side)

        def look_up(number: Any) -> tuple[np.float64, np.ndarray[Any, Any]]:
            here = self._topology.neighbors(int(number), self.rank, self._size)
            weights = [getattr(here, side).get(rank, 0.0) for rank in ranks]
            return np.float64(here.self_weight), np.array(weights, np.float64)

        number = tf.get_static_value(tf.convert_to_tensor(step))
        if number is not None:
            own, weights = look_up(number)
            return float(own), weights.tolist()
        own, weights = tf.numpy_function(look_up, [step], [tf.float64, tf.float64])
        own.set_shape([])
        weights.set_shape([len(ranks)])
        return own, tf.unstack(weights)

    def ones(self, step: Any, side: str) -> list[Any]:
        """1 for each neighbour of a step, 0 for those of other steps."""
        _, weights = self.of_topology(step, side)
        return [
            float(w != 0) if isinstance(w, float) else tf.cast(tf.not_equal(w, 0), tf.float64)
            for w in weights
        ]

    def chosen(self, what: str, given: Weights, side: str, default: Sequence[Any]) -> list[Any]:
        """The weight of each of the sources or targets, as given or by default.

        Raises:
            InvalidArgumentError: If others are given.
        """
        ranks = getattr(self, side)
        if given is None:
            return list(default)
        if not isinstance(given, Mapping):
            return [given] * len(ranks)
        strangers = sorted(set(map(int, given)) - set(ranks))
        if strangers:
            raise errors.InvalidArgumentError(
                f"{what}: rank {strangers[0]} is none of the {side} of rank {self.rank} in window "
                f"'{self._name}', which are {ranks}"
            )
        return [given.get(rank, 0.0) for rank in ranks]
