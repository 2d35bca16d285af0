"""Optimizers of Keras 3 on TensorFlow.

Besides `fit`, two functions of Keras are replaced when the first optimizer is wrapped; for models
and optimizers without a wrapped one they do what they did:

- "auto" of `jit_compile` means no: a collective cannot be compiled. (Keras says yes where it sees a
  GPU, and `fit` would fail.)
- `compile` under `mixed_float16` puts a LossScaleOptimizer around ours, which looks for infinities
  in the gradients of this peer and then calls ours or does not. Other peers would wait in vain, so
  the gradients are exchanged before it looks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kungfu_tf import _keras, peer
from kungfu_tf.optimizers import weight
from kungfu_tf.optimizers._wrapped import Wrapped


class Keras3Optimizer(Wrapped):
    """What `wrap` adds to a `keras.optimizers.Optimizer` of Keras 3."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Keras' method, which `apply_gradients` and `fit` end in, with the algorithm around it."""
        keras_apply = super().apply
        variables = (
            self._trainable_variables if trainable_variables is None else trainable_variables
        )
        grads, variables = list(grads), list(variables)
        if self._kungfu_accumulates():
            # Called for every micro step. Once per update Keras clips what has been gathered.
            self.__dict__["_kungfu_updated"] = _averaged_variables(grads, variables)
            return keras_apply(self._kungfu_weighted(grads, variables), trainable_variables)
        grads = self.kungfu_gradients(grads, variables)
        updated = [_keras.native(v) for v in _averaged_variables(grads, variables)]
        self._kungfu_update(grads, updated, lambda: keras_apply(grads, trainable_variables))

    def kungfu_gradients(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """The algorithm's gradients, without those that are not gradients but new values."""
        if self.__dict__.get("_kungfu_exchanged"):
            return grads
        values = [i for i, v in enumerate(variables) if _is_overwritten(v)]
        mine = [None if i in values else g for i, g in enumerate(grads)]
        theirs = self.kungfu_algorithm.gradients(
            mine, [_keras.native(v) for v in variables], step=self.iterations
        )
        return [grads[i] if i in values else g for i, g in enumerate(theirs)]

    @contextlib.contextmanager
    def kungfu_exchanged(self) -> Iterator[None]:
        """Within it, `apply` is given gradients that `kungfu_gradients` has returned."""
        self.__dict__["_kungfu_exchanged"] = True
        try:
            yield
        finally:
            del self.__dict__["_kungfu_exchanged"]

    def _kungfu_accumulates(self) -> bool:
        return bool(getattr(self, "gradient_accumulation_steps", None))

    def _kungfu_weighted(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """A micro step's gradients, weighed by its samples before they are gathered."""
        if self.__dict__.get("_kungfu_exchanged"):
            return grads
        pairs = zip(grads, variables, strict=True)
        mine = weight.weighted(
            [None if _is_overwritten(v) else g for g, v in pairs], weight.current()
        )
        return [g if m is None else m for g, m in zip(grads, mine, strict=True)]

    def _clip_gradients(self, grads: Any) -> Any:
        if self._kungfu_accumulates():
            with weight.unweighted():
                grads = self.kungfu_gradients(list(grads), self.__dict__["_kungfu_updated"])
        return super()._clip_gradients(grads)

    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        step = super()._backend_update_step
        if not self._kungfu_accumulates():
            return step(grads, trainable_variables, learning_rate)
        updated = [_keras.native(v) for v in trainable_variables]
        self._kungfu_update(grads, updated, lambda: step(grads, trainable_variables, learning_rate))


def _is_overwritten(variable: Any) -> bool:
    """Whether the "gradient" of `variable` is its next value (a scale of a quantised layer)."""
    return bool(getattr(variable, "overwrite_with_gradient", False))


def _averaged_variables(grads: list[Any], variables: list[Any]) -> list[Any]:
    pairs = zip(grads, variables, strict=True)
    return [v for g, v in pairs if g is not None and not _is_overwritten(v)]


def replace_in_keras(package: _keras.Package) -> None:
    """Replaces the two functions, once."""
    trainers = package.private("trainers.trainer")
    if hasattr(trainers.Trainer, "_resolve_auto_jit_compile"):
        _keras.replace(trainers.Trainer, "_resolve_auto_jit_compile", _auto_jit_compile)
    else:  # a function of its own in the first versions of Keras 3
        _keras.replace(trainers, "resolve_auto_jit_compile", _auto_jit_compile)
    _keras.replace(package.module.optimizers.LossScaleOptimizer, "apply", _apply_scaled)


def _auto_jit_compile(original: Any, model: Any) -> bool:
    wrapped = any(map(_keras.is_wrapped, _keras.optimizers_of(model)))
    return bool(original(model)) and (not wrapped or peer.alone())


def _apply_scaled(original: Any, self: Any, grads: Any, trainable_variables: Any = None) -> None:
    inner = self.inner_optimizer
    if not isinstance(inner, Keras3Optimizer):
        return original(self, grads, trainable_variables)
    variables = self._trainable_variables if trainable_variables is None else trainable_variables
    grads = inner.kungfu_gradients(list(grads), list(variables))
    with inner.kungfu_exchanged():
        original(self, grads, trainable_variables)
