"""Layers of which each peer has its own."""

from __future__ import annotations

from typing import Any, TypeVar

from kungfu_tf.replicas import local_variables
from kungfu_tf.upstream import generations

Layer = TypeVar("Layer")


def local(layer: Layer, *, scale: float | None = None) -> Layer:
    """Lets each peer keep its own weights of a layer: they are neither averaged nor made equal.

    It is for a model that lies on several peers in parts, such as a table of embeddings of which
    each peer holds some rows, and for layers that learn what only one peer sees. Call it on every
    peer, before the first step. Shapes may differ between the peers.

    ```
    g ← scale · g        # this peer's own gradient
    ```

    `fit` gives such weights no values of rank 0, and does not compare them. A file that rank 0
    saves has rank 0's. A newcomer keeps those that it was made with.

    Args:
        layer: A layer or model of Keras 3, Keras 2 or tf-keras that is built.
        scale: The factor of the gradients. None: one divided by the number of peers, which makes
            them those of the mean loss of all peers, as all others are. 1.0: those of this peer's
            own loss. With methods in which each peer applies its own gradients, such as
            `SynchronousAveragingOptimizer`, None means 1.0.

    Returns:
        The same object.

    Raises:
        TypeError: If it is no layer.
        ValueError: If it has no weights yet, or `scale` is not positive.

    Example:

    ```python
    table = keras.layers.Embedding(rows_of(kf.rank()), 16)
    table.build(None)
    kf.layers.local(table)
    ```
    """
    if not any(
        isinstance(layer, package.module.layers.Layer) for package in generations.packages()
    ):
        raise TypeError(f"not a layer of Keras: {layer!r}")
    if scale is not None and scale <= 0:
        raise ValueError(f"layers.local: scale must be positive, not {scale}")
    weights: Any = list(generations.only_variables(layer.weights))  # type: ignore[attr-defined]
    if not weights:
        raise ValueError(
            f"layers.local: {type(layer).__name__} has no weights yet: build it first, with an "
            "input shape"
        )
    for weight in weights:
        local_variables.mark(weight, scale)
    return layer
