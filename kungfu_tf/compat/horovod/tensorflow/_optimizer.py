"""Horovod's optimizer around one of Keras or `tf.compat.v1.train`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from horovod.common.process_sets import included
from horovod.tensorflow._exchange import Options, exchanged

import kungfu_tf as kf
from kungfu_tf.exchange.accumulation import Accumulation
from kungfu_tf.exchange.wrapped import Wrapped
from kungfu_tf.replicas import local_variables
from kungfu_tf.upstream import generations

__all__ = ["HorovodSGD", "wrapped"]


class HorovodSGD(kf.optimizers.Algorithm):
    """g ← mean, or sum, over peers of g, with Horovod's options."""

    keeps_equal = True

    def __init__(self, wanted: Options, *, adds_up: bool) -> None:
        self._wanted = wanted
        self.group = wanted.group
        self.sums_steps = wanted.passes > 1 and not wanted.averages_passes
        if wanted.passes > 1 and adds_up:
            op = "mean" if wanted.averages_passes else "sum"
            self.accumulation = Accumulation(wanted.passes, op=op)

    def gradients(
        self, gradients: Sequence[Any], variables: Sequence[Any], *, step: Any = None
    ) -> list[Any]:
        """Returns the results."""
        return exchanged(
            gradients,
            variables,
            self._wanted,
            name=f"{self.name}/gradients",
            step=step,
            sums_rows=self.sums_rows,
        )


class _Variables(list[Any]):
    """Variables that are asked for as `optimizer.variables`, and as `optimizer.variables()`."""

    def __call__(self) -> _Variables:
        return self


class _Horovod(generations.Base):
    """Mixed into the class of a wrapped optimizer: methods that Horovod's optimizers have."""

    horovod_options: Options

    def register_local_var(self, var: Any) -> None:
        """Lets each process keep its own value of a variable."""
        local_variables.mark(var, self.horovod_options.scale_of_local)

    @property
    def _agg_helper(self) -> Any:
        return self.kungfu_algorithm.accumulation

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[Any]:
        """The gradients of a loss, after the exchange: `apply_gradients` takes them as they are.

        If several steps make an update, they are this process' own.
        """
        tape = tf.GradientTape() if tape is None else tape
        if callable(loss):
            with tape:
                tape.watch(var_list)
                loss = loss()
        gradients = tape.gradient(loss, var_list, grad_loss)
        if self.horovod_options.passes > 1:
            return list(zip(gradients, var_list, strict=True))
        native = [generations.native(v) for v in var_list]
        completed = self._kungfu_completed(gradients, native)
        results = self._kungfu_exchange(completed, native, self._kungfu_step())
        self.kungfu_state.computed.update(id(v) for v in var_list)
        return list(zip(results, var_list, strict=True))

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's method. It takes what `_compute_gradients` has returned as it is."""
        pairs = list(grads_and_vars)
        computed = self.kungfu_state.computed
        if not pairs or not all(id(v) in computed for _, v in pairs):
            return super().apply_gradients(pairs, *args, **kwargs)
        computed.difference_update(id(v) for _, v in pairs)
        with self.kungfu_taking_exchanged():
            return super().apply_gradients(pairs, *args, **kwargs)


class _HorovodWithProperty(_Horovod):
    """The same, where Keras has a property that was a method."""

    @property
    def variables(self) -> _Variables:
        """The optimizer's variables."""
        return _Variables(super().variables)


def wrapped(optimizer: Any, wanted: Options) -> Any:
    """Changes an optimizer, and returns it.

    Raises:
        NotImplementedError: If it cannot make an update of several steps.
    """
    is_v1 = isinstance(optimizer, tf.compat.v1.train.Optimizer)
    if is_v1:
        optimizer._optimizer = optimizer  # where programs look for the one inside
    if not included(wanted.process_set):
        return optimizer  # this process trains alone
    innermost = generations.innermost(optimizer)
    is_keras_3 = hasattr(innermost, "gradient_accumulation_steps")
    if wanted.passes > 1 and is_v1:
        raise NotImplementedError(
            "backward_passes_per_step with an optimizer of tf.compat.v1.train is missing in "
            "kungfu_tf.compat"
        )
    if wanted.passes > 1 and is_keras_3:
        if innermost.built:
            raise ValueError("backward_passes_per_step: this optimizer is in use already")
        innermost.gradient_accumulation_steps = wanted.passes
    kf.optimizers.wrap(optimizer, lambda: HorovodSGD(wanted, adds_up=not is_keras_3))
    if is_v1 or not isinstance(optimizer, Wrapped):
        return optimizer
    has_property = isinstance(getattr(type(optimizer), "variables", None), property)
    mixin = _HorovodWithProperty if has_property else _Horovod
    cls = generations.subclass(mixin, type(optimizer), horovod_options=wanted)
    object.__setattr__(optimizer, "__class__", cls)
    return optimizer
