"""Norms of gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf.ops import gradient_values, kernels, naming, tensors


def squared_norm(gradients: Iterable[Any], *, wanted: Any = True) -> Any:
    """|g|², g being all gradients together: a float64 scalar, of the same bits on all peers.

    Args:
        gradients: Tensors, `tf.IndexedSlices`, or None, which counts as nothing.
        wanted: A bool scalar. If it is false, the result is NaN and costs hardly anything.
    """
    by_dtype: dict[Any, list[Any]] = {}
    for values in (_values(g) for g in gradients if g is not None):
        by_dtype.setdefault(values.dtype, []).append(values)
    squares = [kernels.library().kungfu_squared_norm(wanted, group) for group in by_dtype.values()]
    return tf.add_n(squares) if squares else tf.constant(0.0, tf.float64)


def group_mean(
    gradients: Sequence[Any],
    *,
    wanted: Any,
    name: str | None = None,
    step: Any = None,
    agree: Sequence[int] = (),
    exchange: kernels.Exchange | None = None,
) -> tuple[list[Any], Any, Any]:
    """The means over the peers, as by `group_all_reduce`, and norms measured on the way.

    Args:
        gradients: Dense tensors of one floating or complex dtype, at least one.
        wanted: A bool scalar. If it is false on any peer, the norms are NaN and cost nothing.
        name: The same on every peer; default by the place in the program.
        step: An integer scalar that must be the same on all peers.
        agree: As for `agreed_all_reduce`.
        exchange: As for `agreed_all_reduce`.

    Returns:
        The means ḡ; the mean over the peers of |g|², and |ḡ|², of all gradients together: float64
        scalars, of the same bits on all peers.

    Raises:
        UnsupportedTypeError: If the norm of the dtype is not defined.
        tf.errors.InvalidArgumentError: If dtypes, shapes, `step` or `agree` differ between peers,
            or a peer calls `group_all_reduce` instead.
    """
    what = naming.title("group_all_reduce", name)
    given = [tensors.to_tensor(gradient, what) for gradient in gradients]
    for tensor, gradient in zip(given, gradients, strict=True):
        tensors.check_fractions(tensor, f"{what}: the norm", gradient)
    tag = naming.make_tag("group_all_reduce", name)
    means, own, mean = kernels.run(
        "kungfu_group_all_reduce_norms",
        given,
        tf.cast(0 if step is None else step, tf.int64),
        wanted,
        op="mean",
        positions=list(agree),
        tag=tag,
        **kernels.exchange_of(exchange, tag),
    )
    return list(means), own, mean


def _values(gradient: Any) -> Any:
    """Elements whose squares add up to the squared norm; rows with the same index are summed."""
    if isinstance(gradient, tf.IndexedSlices):
        gradient = gradient_values.unique_rows(gradient)
    return gradient_values.values_of(gradient)
