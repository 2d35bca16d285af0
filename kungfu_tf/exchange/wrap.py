"""Makes an optimizer of any generation distributed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from kungfu_tf.exchange import loss_scale
from kungfu_tf.exchange.algorithm import Algorithm
from kungfu_tf.exchange.alone_among_several import warn_if_alone
from kungfu_tf.exchange.keras2 import Keras2LegacyOptimizer, Keras2Optimizer
from kungfu_tf.exchange.keras3 import Keras3Optimizer, Keras3WrappedInside
from kungfu_tf.exchange.state import state_of
from kungfu_tf.exchange.v1 import V1Optimizer
from kungfu_tf.exchange.wrapped import Wrapped, WrappedInside, refuse_replicas
from kungfu_tf.groups import Group, check_group
from kungfu_tf.upstream import activation, generations

Optimizer = TypeVar("Optimizer")


def wrap(
    optimizer: Optimizer, make_algorithm: Callable[[], Algorithm], *, group: Group | None = None
) -> Optimizer:
    """Changes `optimizer` so that an algorithm works around its updates, and returns it.

    The object keeps its state. It gets a subclass of its class, with the same name and module. So
    files and configs that are made from it are those of the plain optimizer. An optimizer that is
    made from them is plain: wrap it again.

    Args:
        optimizer: An optimizer of Keras 3, of Keras 2 or tf-keras (new or legacy), or of
            `tf.compat.v1.train`; or a name or config for `tf.keras.optimizers.get`. Of nested
            optimizers (loss scale, several optimizers) wrap the outermost. Inside a loss scale the
            algorithm works in the steps that are not skipped. If one of several optimizers
            accumulates gradients, each has an algorithm of its own, which works when it updates.
        make_algorithm: Called once for each optimizer of the new class.
        group: The peers that train together, of which this is one (`kungfu_tf.Group`); None: all.

    Raises:
        TypeError: If `optimizer` is none of these, or `group` is no group.
        ValueError: If it is wrapped already, or delegates to one that is.
        UnimplementedError: In the scope of a `tf.distribute.Strategy` with several replicas.
    """
    check_group(group)
    if group is not None:
        make_algorithm = functools.partial(_of_group, group, make_algorithm)
    if isinstance(optimizer, (str, dict)):
        optimizer = tf.keras.optimizers.get(optimizer)
    wrapper = _wrapper_for(optimizer)
    refuse_replicas()
    warn_if_alone()
    activation.use(activation.KERAS)
    activation.use(activation.ESTIMATORS if wrapper is V1Optimizer else activation.SESSIONS)
    if generations.is_wrapped(optimizer):
        raise ValueError(
            f"this {type(optimizer).__name__} is wrapped already: its gradients would be averaged "
            "twice. Wrap an optimizer once, and of nested ones the outermost only"
        )
    mixin = _wrap_parts(optimizer, make_algorithm, wrapper) or wrapper
    if not isinstance(optimizer, mixin):  # it may be made from the class of a wrapped one
        _mix_in(mixin, optimizer, make_algorithm)
    return optimizer


def check_accumulates(optimizer: Any) -> None:
    """Raises a ValueError unless a wrapped optimizer can use an `Algorithm.accumulation`."""
    if not isinstance(generations.innermost(optimizer), Keras2Optimizer):
        raise ValueError(
            f"several steps for an update: {type(optimizer).__name__} is not of Keras 2. An "
            "optimizer of Keras 3 is made with gradient_accumulation_steps"
        )


def _of_group(group: Group, make_algorithm: Callable[[], Algorithm]) -> Algorithm:
    algorithm = make_algorithm()
    algorithm.group = group
    return algorithm


def _wrap_parts(
    optimizer: Any, make_algorithm: Callable[[], Algorithm], wrapper: type[Wrapped]
) -> type[WrappedInside] | None:
    """Wraps the optimizers to which this one leaves its updates, if it does.

    - A LossScaleOptimizer leaves them to the optimizer inside it.
    - A MultiOptimizer of which a part accumulates gradients leaves them to its parts, since these
      update in different steps. Any other MultiOptimizer updates in each step, and is wrapped as a
      whole.

    Returns:
        The class to mix into its own; None if it makes its updates itself.
    """
    if inner := getattr(optimizer, "inner_optimizer", None):
        wrap(inner, make_algorithm)
        for part in generations.parts_of(inner):
            state_of(part).is_scaled = True
        return Keras3WrappedInside if wrapper is Keras3Optimizer else WrappedInside
    parts = getattr(optimizer, "optimizers", [])
    if any(getattr(part, "gradient_accumulation_steps", None) for part in parts):
        for part in parts:
            wrap(part, make_algorithm)
        return Keras3WrappedInside
    return None


def _mix_in(mixin: type, optimizer: Any, make_algorithm: Callable[[], Algorithm]) -> None:
    """Gives the optimizer a subclass of its class."""
    cls = generations.subclass(
        mixin,
        type(optimizer),
        kungfu_make_algorithm=staticmethod(make_algorithm),
        kungfu_wrap=staticmethod(lambda other: wrap(other, make_algorithm)),
    )
    object.__setattr__(optimizer, "__class__", cls)


def _wrapper_for(optimizer: Any) -> type[Wrapped]:
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return V1Optimizer
    for package in generations.packages():
        optimizers = package.module.optimizers
        if isinstance(optimizer, optimizers.Optimizer):
            loss_scale.install(package)
            return Keras3Optimizer if package.generation == 3 else Keras2Optimizer
        if package.generation == 2 and isinstance(optimizer, optimizers.legacy.Optimizer):
            loss_scale.install(package)
            return Keras2LegacyOptimizer
    what = f"{optimizer!r} ({type(optimizer).__module__}.{type(optimizer).__name__})"
    raise TypeError(
        f"not an optimizer of Keras or tf.compat.v1.train: {what}: {_advice(optimizer)}"
    )


def _advice(given: Any) -> str:
    """What to do instead."""
    if isinstance(given, type):
        return f"give an instance, {given.__name__}(...)"
    if hasattr(given, "fit"):
        return "wrap its optimizer, before it is compiled"
    return "give an instance such as keras.optimizers.Adam()"
