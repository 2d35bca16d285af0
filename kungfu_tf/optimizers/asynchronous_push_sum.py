"""Push-sum without waiting: each peer makes its steps at its own pace."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import errors, ops, peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.ops.scaling import times
from kungfu_tf.ops.window import Window
from kungfu_tf.replicas import local_variables
from kungfu_tf.topology import Topology, check

# An update of z moves v by 1/w times as much. Without a limit the w of a peer that makes many steps
# while others rest would vanish.
_LEAST = 0.5


class AsynchronousPushSum(Algorithm):
    """Deals out z and w, and adds what has come. See `PushSumOptimizer`.

    Variables that are updated together have a window for each dtype.
    """

    meets = Meets.NEVER

    def __init__(self, graph: Topology) -> None:
        self.topology = graph
        self._windows: dict[Any, Window] = {}  # by the variables
        self._steps: dict[Any, Iterator[int]] = collections.defaultdict(itertools.count)
        self._starts: dict[Any, Any] = {}  # of the update that is being made

    def before_training(self) -> None:
        """Begins anew: all peers count alike."""
        for variables, window in self._windows.items():
            window.restart([v.deref().read_value() for v in variables])

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the windows, where all peers are."""
        if not peer.is_single_process():
            list(self._by_window(local_variables.averaged(variables)))

    def before_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Remembers where the update starts: copies, as it may change variables in place."""
        if peer.is_single_process():
            return []
        mine = local_variables.averaged(variables)
        self._starts = {v.ref(): tf.raw_ops.DeepCopy(x=v.read_value()) for v in mine}
        return list(self._starts.values())

    def after_update(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Adds the update to z, deals z and w out, and adds what has come."""
        if peer.is_single_process():
            return []
        mine = local_variables.averaged(variables)
        steps = self._steps[tuple(v.ref() for v in mine)]
        step = tf.numpy_function(lambda: np.int64(next(steps)), [], tf.int64)
        step.set_shape([])
        assigned = []
        for group, window in self._by_window(mine):
            weight = window.weight
            sums = []
            for v in group:
                start = self._starts[v.ref()]
                sums.append(times(start, weight) + v.read_value() - start)
            _deal(sums, weight, window, step)
            assigned += _collect(group, window)
        return assigned

    def settle(self) -> None:
        """Adds what is under way to any peer, when all have come to this point."""
        if peer.is_single_process() or not self._windows:
            return
        peer.barrier(name=f"{self.name}/settle")
        for references, window in self._windows.items():
            group = [reference.deref() for reference in references]
            kept = [times(v.read_value(), window.weight) for v in group]
            window.accumulate(kept, self_weight=1.0, weights={})
            _collect(group, window)

    def evaluated(self, variable: Any) -> Any:
        """Σ z / Σ w over the peers, where the sum of w is their number."""
        if peer.is_single_process():
            return variable.read_value()
        of_variable = (w for known, w in self._windows.items() if variable.ref() in known)
        window = next(of_variable, None)
        if window is None:  # no peer has made a step
            return None
        z = times(variable.read_value(), window.weight)
        return ops.all_reduce(z, op="mean", name=f"{self.name}/evaluated")

    def _by_window(self, variables: Sequence[Any]) -> Iterator[tuple[list[Any], Window]]:
        """The variables of each dtype, with their window. All peers make it at once."""
        if not tf.compat.v1.executing_eagerly_outside_functions():
            raise errors.UnimplementedError(
                "PushSumOptimizer does not work in graphs of TF1. Take PairAveragingOptimizer"
            )
        groups: dict[Any, list[Any]] = {}
        for v in variables:
            groups.setdefault(v.dtype.base_dtype, []).append(v)
        for group in groups.values():
            key = tuple(v.ref() for v in group)
            if key not in self._windows:
                with tf.init_scope():
                    self._windows[key] = self._made(group)
            yield group, self._windows[key]

    def _made(self, group: Sequence[Any]) -> Window:
        check(self.topology, peer.size(), rows=False)
        return ops.new_window(
            [v.read_value() for v in group],
            topology=self.topology,
            name=f"{self.name}/{len(self._windows)}",
            zeros=True,
        )


def _deal(sums: Sequence[Any], weight: Any, window: Window, step: Any) -> None:
    """Deals z and w out, or keeps them while there is little."""

    def deal() -> Any:
        window.accumulate(sums, step=step)
        return tf.constant(True)

    def keep() -> Any:
        window.accumulate(sums, self_weight=1.0, weights={})
        return tf.constant(False)

    tf.cond(weight >= _LEAST, deal, keep)


def _collect(group: Sequence[Any], window: Window) -> list[Any]:
    """Adds what has come for these variables, and makes them z / w."""
    sums = window.update(self_weight=1.0, weights=1.0, reset=True)
    weight = window.weight
    return assign(group, [times(z, 1 / weight) for z in sums])
