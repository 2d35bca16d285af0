"""DiLoCo: peers train apart; after some steps an outer optimizer takes their mean movement."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf import errors, ops, peer
from kungfu_tf.context import graph_state
from kungfu_tf.exchange.assignments import assign
from kungfu_tf.exchange.periodic import Periodic, widened
from kungfu_tf.exchange.schedule import Schedule, check_steps
from kungfu_tf.exchange.wrap import wrap
from kungfu_tf.upstream import generations

Optimizer = TypeVar("Optimizer")


class DiLoCo(Periodic):
    """θ ← outer(θ, mean over peers of θ − v), v ← θ, after `every` steps. See `DiLoCoOptimizer`.

    Args:
        make_outer: Makes the outer optimizer.
        every: The number of steps between two meetings.
    """

    def __init__(self, make_outer: Callable[[], Any], every: int) -> None:
        super().__init__(Schedule(every))
        with tf.init_scope():
            self.outer = make_outer()
        self._anchors: dict[Any, Any] = {}  # by references of the variables
        self._has_begun = graph_state.State(
            lambda: graph_state.variable(False, tf.bool, "diloco/has_begun")
        )

    @functools.cached_property
    def state(self) -> tf.Module:
        """The counters of steps; from the first step on also anchors and the outer optimizer's."""
        state = super().state
        state.has_begun = self._has_begun.get()
        return state

    def before_training(self) -> None:
        """Makes the anchors begin where the model is. The outer optimizer keeps its state."""
        super().before_training()
        self._has_begun.get().assign(False)

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the anchors, and the state of the outer optimizer."""
        variables = [generations.native(v) for v in variables]
        if not tf.compat.v1.executing_eagerly_outside_functions():
            raise errors.UnimplementedError(f"DiLoCoOptimizer: {_NO_GRAPHS}")
        if all(v.ref() in self._anchors for v in variables):
            return
        if self._anchors:
            raise errors.UnimplementedError(
                "DiLoCoOptimizer: a step has variables that an earlier one did not have: its outer "
                "optimizer updates all at once. Give all variables to the first step, or wrap an "
                "optimizer for each part of the model"
            )
        with tf.init_scope():
            self._anchors = {v.ref(): _anchor_of(v) for v in variables}
            anchors = list(self._anchors.values())
            self.state.anchors = anchors
            generations.build(self.outer, anchors)
            outer = generations.variables_of(self.outer)
            self.state.outer = [generations.native(v) for v in outer]

    def before_step(self, variables: Sequence[Any]) -> Sequence[Any]:
        """Begins the training before its first step: all peers are where rank 0 is."""
        self.build(variables)
        super().before_step(variables)
        anchors = self._anchors_of(variables)

        def begin() -> Any:
            values = [v.read_value() for v in variables]
            if not peer.is_single_process():
                values = ops.group_broadcast(values, name=f"{self.name}/begin")
            assign(variables, values)
            assign(anchors, [widened(value) for value in values])
            self._has_begun.get().assign(True)
            return tf.constant(0)

        tf.cond(self._has_begun.get().read_value(), lambda: tf.constant(0), begin)
        return []

    def meet(self, variables: Sequence[Any], samples: Any) -> list[Any]:
        """Makes the outer step. Returns the anchors."""
        anchors = self._anchors_of(variables)
        pairs = zip(anchors, variables, strict=True)
        moved = [anchor - widened(v.read_value()) for anchor, v in pairs]
        means = self.mean(moved, variables, samples, "outer")
        self.outer.apply_gradients(list(zip(means, anchors, strict=True)))
        return self._values_of(variables)

    def evaluated(self, variable: Any) -> Any:
        """The anchor, which all peers have."""
        is_known = variable.ref() in self._anchors and bool(self._has_begun.get())
        return self._values_of([variable])[0] if is_known else None

    def _anchors_of(self, variables: Sequence[Any]) -> list[Any]:
        return [self._anchors[v.ref()] for v in variables]

    def _values_of(self, variables: Sequence[Any]) -> list[Any]:
        """The anchors, in the dtypes of their variables."""
        pairs = zip(self._anchors_of(variables), variables, strict=True)
        return [tf.cast(anchor.read_value(), v.dtype.base_dtype) for anchor, v in pairs]


def _anchor_of(variable: Any) -> tf.Variable:
    name = f"anchor/{generations.name_of(variable).split(':')[0]}"
    return tf.Variable(widened(variable), trainable=False, name=name)


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


_NO_GRAPHS = (
    "its outer optimizer is one of Keras, which does not work in graphs of TF1, nor with "
    "optimizers of tf.compat.v1.train. LocalSGDOptimizer and SynchronousAveragingOptimizer do"
)


def DiLoCoOptimizer(  # noqa: N802 (as the other optimizers)
    optimizer: Optimizer, *, outer: Any = None, every: int = 100
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

    Returns:
        The same object.

    Raises:
        TypeError: If `optimizer` or `outer` is not an optimizer of Keras, or `every` is not an
            integer.
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
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise TypeError(f"DiLoCoOptimizer: {type(optimizer).__name__}: {_NO_GRAPHS}")
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

    wrapped = wrap(optimizer, lambda: DiLoCo(make_outer, every))
    return wrapped
