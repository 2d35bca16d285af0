"""Gates in a TF1 graph, where the peers wait until each has its batch.

A peer finds the end of its data in the middle of `session.run`, when the others already wait for
its gradients. So before a graph exchanges gradients, the peers wait for each other at a gate, which
each reaches with its batch. A peer without a batch interrupts the others (`tf1/session/ending.py`).
Then the step ends on all peers before it has changed anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.upstream.graph import READERS, upstream


class Gate:
    """A gate in the graph that is being built.

    Attributes:
        sources: The operations that read the batch.
        passed: The operation that ends when all peers have their batches.
    """

    def __init__(self, number: int, sources: frozenset[Any]) -> None:
        self.sources = sources
        with tf.control_dependencies(list(sources)), tf.device("CPU:0"):
            self.passed = ops.barrier(name=f"session/gate/{number}")


@contextlib.contextmanager
def before(gradients: Sequence[Any]) -> Iterator[None]:
    """Within it, operations that are added to a TF1 graph wait until all peers have their batches.

    In functions, in branches, and in a single process there is no gate.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None: values computed from the batch.
    """
    if peer.is_single_process() or tf.compat.v1.executing_eagerly_outside_functions():
        yield
        return
    operations = [g.op for g in gradients if g is not None]
    graph = tf.compat.v1.get_default_graph()
    is_plain = not graph.building_function and graph._get_control_flow_context() is None
    if not is_plain or not operations:
        yield
        return
    gate = _at(graph, _sources_of(operations))
    with tf.control_dependencies([gate.passed]):
        yield


def gates_of(graph: Any) -> list[Gate]:
    """The gates of a graph. A graph that has some is trained by all peers."""
    gates: list[Gate] = getattr(graph, "_kungfu_gates", [])
    return gates


def gates_reached(graph: Any, fetches: Any) -> list[Gate]:
    """The gates that a run of `fetches` passes. Without any it does not train.

    Args:
        graph: A TF1 graph.
        fetches: As for `session.run`.
    """
    gates = gates_of(graph)
    if not gates:
        return []
    targets = frozenset(_operations_of(graph, fetches))
    known: dict[Any, list[Gate]] = graph._kungfu_reached
    if targets not in known:
        before = set(upstream(targets))
        known[targets] = [gate for gate in gates if gate.passed in before]
    return known[targets]


def upstream_of(graph: Any, fetches: Any) -> set[Any]:
    """The operations that a run of these fetches needs, if nothing is fed."""
    return set(upstream(frozenset(_operations_of(graph, fetches))))


def is_step(run_context: Any) -> bool:
    """Whether a run of a session is a step, for its hooks.

    In a graph without a wrapped optimizer each run counts as one.
    """
    return not gates_of(run_context.session.graph) or trains(run_context)


def trains(run_context: Any) -> bool:
    """Whether a run passes a gate, and so is a step of all peers."""
    fetches = run_context.original_args.fetches
    return bool(gates_reached(run_context.session.graph, fetches))


def _at(graph: Any, sources: frozenset[Any]) -> Gate:
    """The gate of a batch. All optimizers that train on one batch share it."""
    gates = gates_of(graph)
    for gate in gates:
        if gate.sources == sources:
            return gate
    graph._kungfu_gates = [*gates, Gate(len(gates), sources)]
    graph._kungfu_reached = {}  # by sets of operations
    return gates_of(graph)[-1]


def _sources_of(operations: Collection[Any]) -> frozenset[Any]:
    """The operations that read the batch. If one is in a loop or a branch, the given operations."""
    sources = frozenset(op for op in upstream(operations) if READERS.search(op.type))
    is_inside = any(op._get_control_flow_context() is not None for op in sources)
    return frozenset(operations) if is_inside else sources


def parts_of(fetches: Any) -> Iterator[Any]:
    """What fetches of a session consist of: tensors, operations, variables and names."""
    if isinstance(fetches, dict):  # its keys need no order, as those of `tf.nest` do
        fetches = list(fetches.values())
    if isinstance(fetches, (list, tuple)):
        for part in fetches:
            yield from parts_of(part)
        return
    yield from (p for p in tf.nest.flatten(fetches, expand_composites=True) if p is not None)


def operation_of(graph: Any, part: Any) -> Any:
    """The operation that a part of fetches needs."""
    element = graph.as_graph_element(part)
    return element if isinstance(element, tf.Operation) else element.op


def _operations_of(graph: Any, fetches: Any) -> Iterator[Any]:
    return (operation_of(graph, part) for part in parts_of(fetches))
