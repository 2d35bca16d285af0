"""Pickles wrapped optimizers, and models that are trained by one, for other processes.

Keras pickles by saving, and it saves the plain optimizer. But a function that `launch` sends means
the wrapped one. So the plain one is sent, and is wrapped again where it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kungfu_tf.upstream import generations


def reduced(value: Any) -> Any:
    """The reduced value for a pickler, or NotImplemented for the usual one.

    Raises:
        TypeError: If the wrapping would be lost.
    """
    if any(isinstance(value, package.module.Model) for package in generations.packages()):
        return _model(value)
    wrap = _wrap_of(value)
    return NotImplemented if wrap is None else (_optimizer_again, (wrap, *value.__reduce__()))


def _model(model: Any) -> Any:
    wrapped = [o for o in generations.optimizers_of(model) if generations.is_wrapped(o)]
    if not wrapped:
        return NotImplemented
    recipe = model.__reduce__()
    if wrapped != [model.optimizer] or len(recipe) != 2:
        raise TypeError("a model cannot be sent with what its optimizers are wrapped in")
    return _model_again, (_wrap_of(model.optimizer), *recipe)


def _wrap_of(optimizer: Any) -> Any:
    return None if isinstance(optimizer, type) else getattr(type(optimizer), "kungfu_wrap", None)


def _optimizer_again(
    wrap: Callable[[Any], Any], load: Callable[..., Any], arguments: Sequence[Any]
) -> Any:
    return wrap(load(*arguments))


def _model_again(
    wrap: Callable[[Any], Any], load: Callable[..., Any], arguments: Sequence[Any]
) -> Any:
    model = load(*arguments)
    wrap(model.optimizer)
    return model
