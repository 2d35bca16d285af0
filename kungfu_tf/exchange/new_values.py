"""Variables whose "gradient" is their next value, such as the scales of quantised layers.

Keras 3 marks them with `overwrite_with_gradient`. Algorithms do not see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kungfu_tf import ops, peer
from kungfu_tf.exchange.algorithm import Algorithm


def largest(algorithm: Algorithm, grads: list[Any], variables: list[Any]) -> list[Any]:
    """The gradients, with the largest new values of all peers if the algorithm keeps peers equal.

    A new value is the largest number that a quantised layer has seen.
    """
    places = [i for i, v in enumerate(variables) if _is_overwritten(v)]
    if not places or peer.is_single_process() or not algorithm.keeps_equal:
        return grads
    mine, name = [grads[i] for i in places], f"{algorithm.name}/values"
    of_all = dict(zip(places, ops.group_all_reduce(mine, op="max", name=name), strict=True))
    return [of_all.get(i, g) for i, g in enumerate(grads)]


def left_out(grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """The gradients, with None in the places of new values."""
    pairs = zip(grads, variables, strict=True)
    return [None if _is_overwritten(v) else g for g, v in pairs]


def put_back(grads: Sequence[Any], given: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """The inverse of `left_out`: the gradients, with the new values that were given."""
    triples = zip(grads, given, variables, strict=True)
    return [value if _is_overwritten(v) else g for g, value, v in triples]


def trained(grads: list[Any], variables: list[Any]) -> list[Any]:
    """The variables that have a gradient."""
    pairs = zip(left_out(grads, variables), variables, strict=True)
    return [v for g, v in pairs if g is not None]


def _is_overwritten(variable: Any) -> bool:
    return bool(getattr(variable, "overwrite_with_gradient", False))
