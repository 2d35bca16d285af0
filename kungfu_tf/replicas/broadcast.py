"""Gives all peers the variables of one peer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from kungfu_tf import groups, ops, peer
from kungfu_tf.groups import Group
from kungfu_tf.ops import group, members
from kungfu_tf.replicas import local_variables
from kungfu_tf.upstream import generations

_NAME = "broadcast_variables"


def broadcast_variables(
    variables: Iterable[Any], *, root: int = 0, group: Group | None = None
) -> Any:
    """Gives all peers the values that peer `root` has.

    Every peer passes as many variables, of the same shapes and dtypes, in the same order. Their
    names may differ only in numbers. Those of `kungfu_tf.layers.local`, and slots of a
    `ShardedOptimizer`, stay each peer's own. In a single process it does nothing.

    Args:
        variables: `tf.Variable`s or Keras variables, of any shapes and of all dtypes that can
            travel (see `kungfu_tf.ops`).
        root: The rank whose values all get, from 0 to size − 1.
        group: The peers that do it, of which this is one (`kungfu_tf.Group`); None: all.

    Returns:
        In a TF1 graph the operation that does it; else None.

    Raises:
        UnsupportedTypeError: If a variable has a dtype that cannot be sent.
        tf.errors.InvalidArgumentError: On every peer, if number, shapes, dtypes, names or `root`
            differ between peers, or `root` is no rank. In a graph it is raised when the operation
            runs. In eager code it names a variable that differs.
        tf.errors.OpError: As any operation of `kungfu_tf.ops`.

    Example:

    ```python
    kf.initializer.broadcast_variables(model.weights)
    ```
    """
    with groups.among(group):
        operation = values_from_root(variables, root)
        if operation is not None:
            operation.graph._kungfu_broadcasts = True
        return operation


def values_from_root(variables: Iterable[Any], root: int) -> Any:
    """`broadcast_variables`, called by kungfu_tf itself and not by the program."""
    assignments = [] if peer.is_single_process() else _assignments(variables, root)
    if tf.compat.v1.executing_eagerly_outside_functions():
        return None
    return tf.group(*[assignment.op for assignment in assignments])


def _assignments(variables: Iterable[Any], root: int) -> list[Any]:
    given = [v for v in generations.only_variables(variables) if not local_variables.is_local(v)]
    targets = [generations.native(v) for v in given]
    values = group.agreed_broadcast(
        [target.read_value() for target in targets], root=root, name=_NAME, agree=_identity(given)
    )
    return [target.assign(value) for target, value in zip(targets, values, strict=True)]


def _identity(variables: list[Any]) -> list[int]:
    """Numbers in which the peers' variables must agree, besides their shapes.

    In eager code the variables are compared before. There names may differ in a prefix, and an
    error says which variable differs.
    """
    identity = members.identity(variables)
    if not tf.executing_eagerly() or ops.consensus(identity, name=f"{_NAME}/members"):
        return [identity]
    members.check_same(variables, name=_NAME)
    return []


def is_in(graph: Any) -> bool:
    """Whether the program has added a `broadcast_variables` to a TF1 graph."""
    return hasattr(graph, "_kungfu_broadcasts")


def BroadcastGlobalVariablesOp() -> tf.Operation:  # noqa: N802 (the name that KungFu has)
    """The operation that gives all peers the global variables of rank 0. For TF1 graphs.

    Build it when all variables exist, the optimizer's included, and run it after they have been
    initialised.

    Returns:
        The operation. Running it raises what `broadcast_variables` raises.

    Raises:
        RuntimeError: In eager code, where there is no collection of global variables.

    Example:

    ```python
    train_op = kf.optimizers.SynchronousSGDOptimizer(optimizer).minimize(loss)
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(kf.initializer.BroadcastGlobalVariablesOp())
    ```
    """
    if tf.compat.v1.executing_eagerly_outside_functions():
        raise RuntimeError(
            "BroadcastGlobalVariablesOp is for TF1 graphs; in eager code and functions call "
            "kungfu_tf.initializer.broadcast_variables(model.weights)"
        )
    return broadcast_variables(tf.compat.v1.global_variables())
