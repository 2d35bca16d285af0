"""Methods whose peers mix what they hold with their neighbours, in each step."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import errors, ops, peer
from kungfu_tf.exchange.own_gradients import OwnGradients
from kungfu_tf.topology import Topology, check


class Mixed(OwnGradients):
    """Each peer has Σⱼ W[i, j]·xⱼ of something in each step, where W is a matrix of a topology."""

    needs_symmetric = False
    needs_rows = True  # that add up to 1
    works_in_graphs = True  # of TF1

    def __init__(self, graph: Topology) -> None:
        self.topology = graph
        self._numbers: dict[Any, Iterator[int]] = collections.defaultdict(itertools.count)
        self._checked: set[int] = set()  # sizes

    def next_step(self, variables: Sequence[Any]) -> Any:
        """How often these peers have mixed for these variables before. It counts when it runs."""
        mixed = tuple(v.ref() for v in variables)

        def count() -> Any:
            return np.int64(next(self._numbers[mixed, peer.membership_version()]))

        return tf.ensure_shape(tf.numpy_function(count, [], tf.int64), [])

    def mixed(self, values: Sequence[Any], step: Any, name: str = "model") -> list[Any]:
        """The weighted sums of the values, by the matrix of a step.

        Raises:
            InvalidArgumentError: If the topology makes no means.
            UnimplementedError: In a TF1 graph, if the method does not work there.
        """
        is_graph = not tf.compat.v1.executing_eagerly_outside_functions()
        if is_graph and not self.works_in_graphs:
            raise errors.UnimplementedError(
                f"{type(self).__name__}Optimizer does not work so in graphs of TF1. Take "
                "ExactDiffusionOptimizer, or DecentralizedSGDOptimizer without overlap"
            )
        size = peer.size()
        if size not in self._checked:
            check(self.topology, size, symmetric=self.needs_symmetric, rows=self.needs_rows)
            self._checked.add(size)
        return ops.group_neighbor_all_reduce(
            values, topology=self.topology, step=step, name=f"{self.name}/{name}"
        )
