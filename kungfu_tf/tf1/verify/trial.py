"""One run of a session that trains: by one process, and by all peers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf.replicas import gates
from kungfu_tf.verification import comparison
from kungfu_tf.verification.exchanges import Exchange
from kungfu_tf.verification.trial import Moved, Trial

Run = Callable[..., Any]

_WRITES = re.compile(r"^Kungfu|Assign|Apply|Scatter")


class Trials:
    """As `verification.step.Trials`; but the step of all peers is the run itself, and stays.

    Args:
        run: Runs fetches, with a `feed_dict`.
        graph: That of the session.
        fetches: What the program asks for.
        feed: What it feeds.
        exchanges: Those that its run passes.

    Attributes:
        result: That of the run of all peers.
        can_update: Whether one process can run all of the fetches: no other operation of
            kungfu_tf is among what they need.
    """

    def __init__(
        self,
        run: Run,
        graph: Any,
        fetches: Any,
        feed: Mapping[Any, Any],
        exchanges: Sequence[Exchange],
    ) -> None:
        self.result: Any = None
        self._run = run
        self._fetches = fetches
        self._feed = dict(feed)
        self._variables = [v for exchange in exchanges for v in exchange.variables]
        self._mine = [g for exchange in exchanges for g in exchange.mine]
        self._exchanged = [g for exchange in exchanges for g in exchange.exchanged]
        parts = list(gates.parts_of(fetches))
        targets = [gates.operation_of(graph, part) for part in parts]
        fed = {id(part) for g in self._exchanged for part in _fed_parts(g)}
        needed = {operation.type for operation in _needed(targets, fed)}
        self.can_update = not any(kind.startswith("Kungfu") for kind in needed)
        self._numbers = [part for part in parts if _is_number(graph, part)]
        self._state = self._known(graph)
        self._before = self._values()

    def alone(
        self, batch: Any, replacements: Sequence[Any] | None = None, *, is_redrawn: bool = False
    ) -> Trial:
        """Of one process. In a session each run draws other random numbers."""
        del is_redrawn
        feed = {**self._feed, **dict(zip(self._feed, batch, strict=True))}
        now = self._values()
        self._load(self._before)
        try:
            mine, results = self._run([self._mine, self._numbers], feed_dict=feed)
            trial = self._trial(mine if replacements is None else replacements, results)
            if self.can_update:
                for gradient, value in zip(self._exchanged, trial.given, strict=True):
                    feed.update(zip(_fed_parts(gradient), _parts(value), strict=True))
                self._run(self._fetches, feed_dict=feed)
                trial.variables = self._moved()
        finally:
            self._load(now)
        return trial

    def together(self, samples: Sequence[int]) -> Trial:
        """The run of all peers."""
        del samples
        fetches = [self._fetches, self._exchanged, self._numbers]
        self.result, exchanged, results = self._run(fetches, feed_dict=self._feed)
        trial = self._trial(exchanged, results)
        if self.can_update:
            trial.variables = self._moved()
        return trial

    def digits(self, trial: Trial) -> Any:
        """That of the gradients."""
        return comparison.digits([], trial.given)

    def key_of(self, label: str) -> Any:
        """Variables have the same names on all peers."""
        return label

    def label_of(self, key: Any) -> str:
        """What is trained is never a peer's own."""
        return "" if key in {v.op.name for v in self._variables} else key

    def trained_values(self) -> dict[str, Any]:
        """The values of what is trained, by name."""
        names = dict.fromkeys(v.op.name for v in self._variables)
        values = self._values()
        return {name: values[name] for name in names if name in values}

    def _trial(self, gradients: Sequence[Any], results: Sequence[Any]) -> Trial:
        trial = Trial([v.op.name for v in self._variables], [_as_tensor(g) for g in gradients])
        trial.results = [np.asarray(result) for result in results]
        return trial

    def _known(self, graph: Any) -> list[Any]:
        """The variables that are initialised."""
        with graph.as_default():
            both = [*tf.compat.v1.global_variables(), *tf.compat.v1.local_variables()]
        known = []
        for variable in {v.op.name: v for v in both}.values():
            try:
                self._run(variable)
            except tf.errors.FailedPreconditionError:
                continue
            known.append(variable)
        return known

    def _values(self) -> dict[str, Any]:
        values = self._run(self._state)
        return {v.op.name: value for v, value in zip(self._state, values, strict=True)}

    def _load(self, values: Mapping[str, Any]) -> None:
        for v in self._state:
            self._run(v.initializer, feed_dict={v.initializer.inputs[1]: values[v.op.name]})

    def _moved(self) -> dict[Any, Moved]:
        return {
            name: Moved(name, np.asarray(self._before[name]), np.asarray(after))
            for name, after in self._values().items()
            if not np.array_equal(self._before[name], after)
        }


def _needed(targets: Collection[Any], fed: Collection[int]) -> Iterator[Any]:
    """The operations that run for these targets, where tensors with these identities are fed."""
    waiting, seen = list(targets), set(targets)
    while waiting:
        operation = waiting.pop()
        yield operation
        inputs = [tensor.op for tensor in operation.inputs if id(tensor) not in fed]
        for other in [*inputs, *operation.control_inputs]:
            if other not in seen:
                seen.add(other)
                waiting.append(other)


def _fed_parts(gradient: Any) -> list[Any]:
    is_sparse = isinstance(gradient, tf.IndexedSlices)
    return [gradient.values, gradient.indices] if is_sparse else [gradient]


def _parts(value: Any) -> list[Any]:
    return [np.asarray(part) for part in _fed_parts(value)]


def _as_tensor(value: Any) -> Any:
    """A gradient that was fetched, or its replacement, as eager code has it."""
    if hasattr(value, "indices"):
        shape = value.dense_shape
        known = None if shape is None else tf.constant(shape)
        return tf.IndexedSlices(tf.constant(value.values), tf.constant(value.indices), known)
    return tf.constant(value)


def _is_number(graph: Any, fetch: Any) -> bool:
    """Whether it is a floating scalar that is computed without others, and changes nothing."""
    if not isinstance(fetch, tf.Tensor) or fetch.shape.rank != 0 or not fetch.dtype.is_floating:
        return False
    return not any(
        _WRITES.search(one.type) for one in _needed([gates.operation_of(graph, fetch)], ())
    )
