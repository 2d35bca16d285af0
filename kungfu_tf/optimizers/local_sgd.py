"""Local SGD: peers train apart, and average their models after some steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import peer
from kungfu_tf.exchange.anchored import Anchored
from kungfu_tf.exchange.assignments import chosen_gradients
from kungfu_tf.exchange.codec import Codec, check_codec
from kungfu_tf.exchange.periodic import Periodic
from kungfu_tf.exchange.schedule import Schedule, check_steps
from kungfu_tf.exchange.synchronous_means import synchronous_means
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.upstream import generations

Optimizer = TypeVar("Optimizer")


class PostLocal(Periodic):
    """The first steps are synchronous SGD, whose gradients travel as they are."""

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns the means in the first steps, then this peer's own."""
        start = self.schedule.start
        if start == 0 or peer.is_single_process():
            return super().gradients(gradients, variables)
        is_first = self.schedule.steps.read_value() < start
        means = functools.partial(synchronous_means, name=self.name, sums_rows=self.sums_rows)
        own = super().gradients
        return chosen_gradients(is_first, gradients, variables, means, own)

    def after_step(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Averages the models if it is time."""
        return [] if peer.is_single_process() else super().after_step(variables)


class LocalSGD(PostLocal):
    """v ← mean over peers of v, after every `every` steps. See `LocalSGDOptimizer`."""

    def meet(self, variables: Sequence[Any], samples: Any) -> list[Any]:
        """Returns the means over all peers' samples."""
        values = [v.read_value() for v in variables]
        means = self.mean(values, variables, samples, "model")
        return [tf.cast(mean, v.dtype.base_dtype) for mean, v in zip(means, variables, strict=True)]


class CompressedLocalSGD(PostLocal, Anchored):
    """θ ← θ − mean over peers of θ − v, v ← θ. A codec takes what is small: not v, but θ − v."""

    title = "LocalSGDOptimizer(compression=...)"

    def before_step(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Begins before the first step on its own."""
        return [] if peer.is_single_process() else super().before_step(variables)

    def move(self, anchors: Sequence[Any], means: Sequence[Any]) -> None:
        """Moves the anchors all the way."""
        for anchor, mean in zip(anchors, means, strict=True):
            anchor.assign_sub(mean)


def LocalSGDOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer,
    *,
    every: int,
    start: int = 0,
    compression: Codec | None = None,
    group: Group | None = None,
) -> Optimizer:
    """Makes each peer train a model of its own, and averages the models after some steps.

    ```
    v ← update(v, g)                               # g: of this peer's batch
    after step start + every, start + 2·every, …:
        v ← Σ over peers of n·v / Σ over peers of n    # n: samples since the last meeting
    ```

    Between two averages nothing is sent, so a slow network counts for 1/`every` of what it does
    with `SynchronousSGDOptimizer`. The first `start` steps are synchronous SGD ("post-local SGD").

    Expect a loss of accuracy in short trainings, which grows with `every`. A larger learning rate
    makes up for a part of it. Try `every` up to a hundredth of the steps of the training. Inside
    one host, where peers share memory, nothing is gained.

    In `fit` peers may have different numbers of batches. One that has run out continues with zero
    gradients, and its model counts by its samples. `fit` ends with that average. At an epoch's end
    it validates and saves the plain mean over the peers, as `average_variables` has it. A callback
    that stops the training in the middle of an epoch does so at the next average. If the number of
    batches is unknown, the peers ask each other for more at the averages; in each step, if the
    model has a train step of its own, `steps_per_execution` is more than 1, rank 0 saves in the
    middle of an epoch, or Keras 2 is given no `steps_per_epoch`. With policies, and in
    `kungfu_tf.elastic.fit`, the peers add up their samples in each step. Sessions and Estimators
    wait for each other's batches in each step.

    Steps are calls of `apply`. A step counts, too, if it only accumulates gradients, or if the loss
    scale skips it. Each peer skips steps of its own. Each keeps its own optimizer state. With
    `use_ema` a peer's moving averages follow its own model.

    A training that is resumed by `BackupAndRestore` of Keras 3 continues as if it had not been
    interrupted, if all peers find their own models, which they have written into the folder of the
    backup. Otherwise it continues from the average, with the optimizer state of rank 0. In a loop
    of your own, `tf.train.Checkpoint(algorithm=optimizer.kungfu_algorithm.state)` keeps the number
    of steps; save the model within `average_variables`, and send newcomers
    `optimizer.kungfu_algorithm.variables` along with the model.

    Sources: Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019; Lin et al.,
    "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020 (`start`).

    Args:
        optimizer: As for `SynchronousSGDOptimizer`. It is changed in place.
        every: The number of steps between two averages, an integer from 1. With 1 and plain SGD it
            trains as `SynchronousSGDOptimizer`.
        start: The number of synchronous steps before, an integer from 0. They cannot be with an
            optimizer that accumulates gradients.
        compression: How the models travel, a codec of `kungfu_tf.compression`; None: as they are.
            The movements since the last average are sent then, so each peer keeps one more copy of
            the model: that average, which is also what is evaluated and saved. The optimizer makes
            a codec of its own with the same settings. Refused in graphs of TF1.
        group: As for `SynchronousSGDOptimizer`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` is not an optimizer, a number is not an integer, or `compression`
            is no codec.
        ValueError: If it is wrapped already, a number is out of range, or `start` is given and the
            optimizer accumulates gradients.
        UnimplementedError: In a step, if it has other variables than the first; or with a codec in
            a TF1 graph.

    Example:

    ```python
    optimizer = kf.optimizers.LocalSGDOptimizer(keras.optimizers.SGD(0.1), every=8)
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    check_steps("every", every, least=1)
    check_steps("start", start, least=0)
    check_codec(compression)
    kind = LocalSGD if compression is None else CompressedLocalSGD
    wrapped = wrap(optimizer, lambda: kind(Schedule(every, start), compression), group=group)
    parts = generations.parts_of(wrapped)
    if start and any(getattr(part, "gradient_accumulation_steps", None) for part in parts):
        raise ValueError(
            "LocalSGDOptimizer: start cannot be with an optimizer that accumulates gradients: the "
            "peers would not update in the same steps. Leave one of the two away"
        )
    return wrapped
