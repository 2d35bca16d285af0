"""A gradient tape whose gradients are means over the peers."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from kungfu_tf import context, groups, peer
from kungfu_tf.exchange import sums, union
from kungfu_tf.exchange.alone_among_several import warn_if_alone
from kungfu_tf.exchange.buckets import (
    DEFAULT_BUCKET_BYTES,
    check_bucket_bytes,
    check_op,
    check_predivide,
)
from kungfu_tf.exchange.codec import Codec, check_codec
from kungfu_tf.exchange.mean_gradients import mean_gradients
from kungfu_tf.groups import Group, check_group
from kungfu_tf.replicas import local_variables, sample_weights
from kungfu_tf.verification import unverified


class DistributedGradientTape:
    """A `tf.GradientTape` whose `gradient` returns the mean over the peers.

    It is for training loops of your own, with a plain optimizer. Every peer must call `gradient` in
    the same steps, with the same sources in the same order. All other methods are the tape's.

    Args:
        tape: The tape, before, while or after it records.
        bucket_bytes: As for `SynchronousSGDOptimizer`.
        samples: How many samples this peer's batch has, an integer scalar. Then the results are
            means over the samples of all peers, if each peer's loss is the mean over its own. A
            peer without samples has the weight 0. Default: peers count alike.
        op: "mean"; or "sum", which is `size` times as much.
        predivide: As for `SynchronousSGDOptimizer`.
        group: The peers of the means, of which this is one (`kungfu_tf.Group`); None: all.
        compression: As for `SynchronousSGDOptimizer`. Make the codec once, outside of the step: it
            keeps its state itself (`codec.state`), and tapes live for one step.

    Raises:
        TypeError: If `tape` is not a `tf.GradientTape`, `bucket_bytes` not an integer, `predivide`
            no number, `compression` no codec, or `group` no group.
        ValueError: If `bucket_bytes` or `predivide` is not positive, there is no such `op`, or
            `predivide` goes with a sum.

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
        op: str = "mean",
        predivide: float = 1.0,
        group: Group | None = None,
        compression: Codec | None = None,
    ) -> None:
        if not isinstance(tape, tf.GradientTape):
            raise TypeError(f"not a tf.GradientTape: {tape!r}")
        check_bucket_bytes(bucket_bytes)
        check_op(op)
        check_predivide(predivide, op)
        check_codec(compression)
        check_group(group)
        warn_if_alone()
        self._tape = tape
        self._bucket_bytes = bucket_bytes
        self._samples = samples
        self._op = op
        self._predivide = predivide
        self._group = group
        self._compression = compression
        self._weight: Any = None
        self._recording = contextlib.ExitStack()

    @tf.autograph.experimental.do_not_convert
    def gradient(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the means of the peers' gradients.

        Args:
            target: The tensors to differentiate, as for `tf.GradientTape.gradient`.
            sources: Variables or tensors, or any nesting of them.
            *args: `output_gradients` and `unconnected_gradients`.
            **kwargs: The same by name.

        Returns:
            The means in the structure of `sources`; None where no peer has a gradient. If only some
            peers have a gradient, it counts as zero on the others.

        Raises:
            InvalidArgumentError: If `target` is no scalar, and no `output_gradients` weigh it.
            tf.errors.InvalidArgumentError: If the peers' sources differ. It names two of them.
            tf.errors.OpError: As from `kungfu_tf.ops.group_all_reduce`.
        """
        variables = tf.nest.flatten(sources)
        with groups.among(self._group), self._counting():
            of_tape = type(self._tape).gradient
            gradients = sums.gradient(of_tape, self._tape, target, variables, *args, **kwargs)
            means = local_variables.exchanged(gradients, variables, self._means)
        if (note := context.current().note_gradients) is not None:
            means = list(note(variables, means, ""))
        else:
            unverified.note(variables, keeps_equal=True)
        return tf.nest.pack_sequence_as(sources, means)

    def _means(self, gradients: list[Any], variables: list[Any]) -> list[Any]:
        if context.current().is_private:
            return gradients
        codec = self._compression
        gradients = union.completed(gradients, variables, name="tape", compression=codec)
        # A tape lives for one step. If it had a name, each step would have new ones. The default
        # names of operations repeat.
        return mean_gradients(
            gradients,
            variables,
            bucket_bytes=self._bucket_bytes,
            op=self._op,
            predivide=self._predivide,
            compression=codec,
        )

    def _counting(self) -> Any:
        """Within it averages over peers count samples, also those of layers in both passes."""
        if self._samples is None or peer.is_single_process():
            return contextlib.nullcontext()
        if self._weight is None:
            self._weight = sample_weights.weight_of(self._samples)
        return sample_weights.within(self._weight)

    def __enter__(self) -> DistributedGradientTape:
        with groups.among(self._group):  # only the weight is theirs: the program's work is its own
            counting = self._counting()
        self._recording.enter_context(counting)
        self._tape.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._tape.__exit__(*exception)
        self._recording.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)
