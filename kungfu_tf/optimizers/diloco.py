"""DiLoCo: peers train apart; after some steps an outer optimizer takes their mean movement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf.exchange.anchored import Anchored
from kungfu_tf.exchange.codec import Codec, check_codec
from kungfu_tf.exchange.schedule import Schedule, check_steps
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.groups import Group
from kungfu_tf.upstream import generations

Optimizer = TypeVar("Optimizer")


class DiLoCo(Anchored):
    """θ ← outer(θ, mean over peers of θ − v), v ← θ, after `every` steps. See `DiLoCoOptimizer`.

    Args:
        make_outer: Makes the outer optimizer.
        every: The number of steps between two meetings.
        compression: As for `Periodic`.
    """

    no_graphs = (
        "its outer optimizer is one of Keras, which does not work in graphs of TF1, nor with "
        "optimizers of tf.compat.v1.train. LocalSGDOptimizer and SynchronousAveragingOptimizer do"
    )

    def __init__(
        self, make_outer: Callable[[], Any], every: int, compression: Codec | None = None
    ) -> None:
        super().__init__(Schedule(every), compression)
        with tf.init_scope():
            self.outer = make_outer()

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the anchors, and the state of the outer optimizer."""
        is_new = not self.anchors
        super().build(variables)
        if is_new and self.anchors:
            with tf.init_scope():
                generations.build(self.outer, self.anchors)
                outer = generations.variables_of(self.outer)
                self.state.outer = [generations.native(v) for v in outer]

    def move(self, anchors: Sequence[Any], means: Sequence[Any]) -> None:
        """Makes the outer step."""
        self.outer.apply_gradients(list(zip(means, anchors, strict=True)))


def _check_outer(outer: Any) -> None:
    try:
        generations.package_of_optimizer(outer)
    except TypeError as error:
        advice = "outer is an optimizer such as keras.optimizers.SGD(0.7)"
        raise TypeError(f"DiLoCoOptimizer: {advice}: {error}") from None
    if generations.is_wrapped(outer):
        raise ValueError(
            f"DiLoCoOptimizer: outer, a {type(outer).__name__}, is wrapped. It works on what all "
            "peers have in common: give a plain optimizer"
        )


def DiLoCoOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer,
    *,
    outer: Any = None,
    every: int = 100,
    compression: Codec | None = None,
    group: Group | None = None,
) -> Optimizer:
    """Makes peers train apart, and an outer optimizer take the mean of their movements.

    ```
    θ: the anchor, equal on all peers
    v ← update(v, g)                                    # g: of this peer's batch
    after every `every`-th step:
        Δ ← Σ over peers of n·(θ − v) / Σ over peers of n   # n: samples since the last meeting
        θ ← outer(θ, Δ)                                 # Δ takes the place of a gradient
        v ← θ
    ```

    Between two meetings nothing is sent, so a slow network counts for 1/`every` of what it does
    with `SynchronousSGDOptimizer`. A peer keeps θ and the state of `outer` in memory: with the
    default two more copies of the model. With `outer=SGD(1.0)` it is `LocalSGDOptimizer`; with
    `SGD(rate, momentum)` it is SlowMo or BMUF. In a single process it is Lookahead.

    Expect a loss of accuracy in short trainings: the parity that the paper reports is that of long
    ones. Take `every` up to a hundredth of the steps of the training, and tune the rates of both
    optimizers. Inside one host, where peers share memory, nothing is gained.

    What is evaluated and saved is θ: `average_variables` puts it into the model, without an
    exchange. `fit` does so by itself, and ends with a last meeting, after which the model is θ. In
    a loop of your own, call `optimizer.kungfu_algorithm.finish()` on all peers.

    Numbers of batches, callbacks that stop, steps without an update and what `fit` asks in each
    step are as described at `LocalSGDOptimizer`. A step must have all variables that the optimizer
    trains. Refused are graphs of TF1, optimizers of `tf.compat.v1.train`, and `use_ema`.

    A resumed training (`BackupAndRestore` of Keras 3) continues from θ with the state of `outer`.
    If the backup was made at a meeting, and the optimizer itself keeps no slots, it continues as if
    it had not been interrupted. Otherwise the steps since the meeting are lost, and all peers get
    the slots of rank 0. In a loop of your own,
    `tf.train.Checkpoint(algorithm=optimizer.kungfu_algorithm.state)` keeps both. There
    newcomers first call `optimizer.kungfu_algorithm.build(model.trainable_variables)`. Then send
    them `optimizer.kungfu_algorithm.variables` along with the model.

    `BackupAndRestore` cannot resume a model with several of these optimizers.

    If a peer is lost between two meetings and the others go on (`kungfu-run -on-failure survive`),
    the next meeting is theirs. Nothing is lost but the steps of that peer.

    Source: Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models",
    2023, arXiv:2311.08105. Lookahead: Zhang et al., NeurIPS 2019. SlowMo: Wang et al., ICLR 2020.

    Args:
        optimizer: As for `SynchronousSGDOptimizer`, of Keras. It is changed in place.
        outer: The outer optimizer, any one of Keras. Copies of it, made from its config, work: read
            `optimizer.kungfu_algorithm.outer`. Default: SGD with a learning rate of 0.7, and
            Nesterov momentum of 0.9.
        every: The number of steps between two meetings, an integer from 1.
        compression: How the movements θ − v travel, a codec of `kungfu_tf.compression` such as
            `Int8()`; None: as they are. The optimizer makes a codec of its own with the same
            settings. At each meeting the peers then first add up their samples, 8 bytes.
        group: As for `SynchronousSGDOptimizer`.

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` or `outer` is not an optimizer of Keras, `every` is not an
            integer, or `compression` is no codec.
        ValueError: If `optimizer` or `outer` is wrapped already, `every` is less than 1, or
            `optimizer` has `use_ema`.
        UnimplementedError: In a step, in a TF1 graph; or if it has other variables than the first.

    Example:

    ```python
    optimizer = kf.optimizers.DiLoCoOptimizer(keras.optimizers.Adam(1e-3), every=50)
    model.compile(optimizer=optimizer, loss="mse")
    ```
    """
    check_steps("every", every, least=1)
    check_codec(compression)
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise TypeError(f"DiLoCoOptimizer: {type(optimizer).__name__}: {DiLoCo.no_graphs}")
    if any(getattr(part, "use_ema", False) for part in generations.parts_of(optimizer)):
        raise ValueError(
            "DiLoCoOptimizer: use_ema cannot be: moving averages would follow each peer's own "
            "model, and the model that is evaluated and saved is the anchor. Leave it away"
        )
    config: dict[str, Any] = {}
    if outer is not None:
        _check_outer(outer)
        config = outer.get_config()

    def make_outer() -> Any:
        if outer is not None:
            return type(outer).from_config(config)
        keras = generations.package_of_optimizer(wrapped).module
        return keras.optimizers.SGD(0.7, momentum=0.9, nesterov=True)

    wrapped = wrap(optimizer, lambda: DiLoCo(make_outer, every, compression), group=group)
    return wrapped
