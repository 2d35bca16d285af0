"""Outboxes: what this peer has posted for another one, added up until that one collects it.

Unlike a queue, an outbox holds one value at most. `Window` is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kungfu_tf.native import calls
from kungfu_tf.ops import kernels


class Collected(NamedTuple):
    """What a peer has posted since the last time, or zeros.

    Attributes:
        values: The sums of the tensors.
        count: How often it has posted, an int64 scalar; 0: there was nothing.
        weight: The sum of the weights, a float64 scalar.
        replaces: Whether it takes the place of what was collected before, a bool scalar.
    """

    values: list[Any]
    count: Any
    weight: Any
    replaces: Any


def epoch() -> int:
    """The epoch that runs now. In a later one outboxes begin empty."""
    return calls.number("kungfu_epoch")


def post(values: Sequence[Any], tag: str, epoch: Any, weight: Any, *, replaces: bool) -> Any:
    """Adds tensors of one dtype to an outbox of this peer, or replaces what is there.

    Args:
        values: The tensors. They are copied.
        tag: The name of the outbox.
        epoch: That in which it began, an int64 scalar.
        weight: A float64 scalar, which is added up with them.
        replaces: Whether they replace.
    """
    kernels.check_graph(f"post '{tag}'")
    return kernels.library().kungfu_post(
        list(values), epoch, weight, replaces=replaces, **kernels.named(tag)
    )


def collect(source: int, specs: Sequence[tf.TensorSpec], tag: str, epoch: Any) -> Collected:
    """Takes what is in an outbox of another peer, and does not wait for more.

    In a function it runs at the same time as others.

    Args:
        source: The rank of that peer.
        specs: Of the tensors, which have one dtype.
        tag: The name of the outbox.
        epoch: That in which it began, an int64 scalar.
    """
    *values, count, weight, replaces = tf.nest.flatten(
        kernels.run(
            "kungfu_collect",
            tf.constant(source),
            epoch,
            N=len(specs),
            T=specs[0].dtype,
            shapes=[spec.shape for spec in specs],
            tag=tag,
        )
    )
    return Collected(values, count, weight, replaces)
