"""A gradient tape whose gradients are means over the peers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.optimizers.buckets import DEFAULT_BUCKET_BYTES, mean_gradients
from kungfu_tf.optimizers.weight import weight_of


class DistributedGradientTape:
    """A `tf.GradientTape` whose `gradient` returns the mean over the peers.

    For training loops of one's own; the optimizer that applies the gradients is a plain one. Every
    peer must call `gradient` in the same steps, with sources of the same shapes. All other methods
    are the tape's.

    Args:
        tape: The tape, before, while or after it records.
        bucket_bytes: As for `SynchronousSGDOptimizer`.
        samples: How many samples this peer's batch has, an integer scalar. Then the gradients are
            means over the samples of all peers, if each peer's is the mean over its own, and a peer
            without samples counts nothing. Default: peers count alike.

    Example:

    ```python
    @tf.function
    def step(x, y):
        with kf.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = loss_of(model(x), y)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    ```
    """

    def __init__(
        self,
        tape: tf.GradientTape,
        *,
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
        samples: Any = None,
    ) -> None:
        if not isinstance(tape, tf.GradientTape):
            raise TypeError(f"not a tf.GradientTape: {tape!r}")
        self._tape = tape
        self._bucket_bytes = bucket_bytes
        self._samples = samples

    @tf.autograph.experimental.do_not_convert
    def gradient(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the means of the peers' gradients.

        Args:
            target: What is derived, as `tf.GradientTape.gradient` takes it.
            sources: Variables or tensors, or any nesting of them.
            *args: `output_gradients` and `unconnected_gradients`.
            **kwargs: The same by name.

        Returns:
            The means in the structure of `sources`; None where there is no gradient.
        """
        gradients = self._tape.gradient(target, tf.nest.flatten(sources), *args, **kwargs)
        # A tape lives for a step. A name of its own would be a new one in each: the operations'
        # default names repeat.
        is_weighted = self._samples is not None and not peer.alone()
        means = mean_gradients(
            gradients,
            tf.nest.flatten(sources),
            bucket_bytes=self._bucket_bytes,
            weight=weight_of(self._samples) if is_weighted else None,
        )
        return tf.nest.pack_sequence_as(sources, means)

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._tape.__exit__(*exception)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)
