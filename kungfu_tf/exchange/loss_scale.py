"""The LossScaleOptimizer of Keras around ours: all peers skip a step, or none does.

Keras 3: `compile` under `mixed_float16` puts a LossScaleOptimizer around any optimizer. It calls
the optimizer inside only if it finds no infinities in this peer's gradients. If one peer skipped a
step alone, the others would wait for it in vain. So two methods are patched. Around a plain
optimizer they do what they did.

- If every step is an update, the gradients are exchanged before it looks. All peers find the same
  in the means, at no cost.
- If several steps make an update, or there are several optimizers, the peers agree on what they
  have found, with one byte in each step. The gradients are exchanged as without a loss scale.
- Peers that do not meet in every step each skip steps of their own.

Keras 2: it exchanges the gradients before it looks. But before that it leaves out variables without
a gradient. So each peer needs zeros for gradients that only others have.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from kungfu_tf import context, ops, peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.exchange import whole_step
from kungfu_tf.exchange.keras2 import Keras2Optimizer
from kungfu_tf.exchange.keras3 import Keras3Optimizer, weighted
from kungfu_tf.replicas import sample_weights
from kungfu_tf.upstream import generations, patches
from kungfu_tf.upstream.patches import Owner, Patch


def install(package: generations.Package) -> None:
    """Patches the LossScaleOptimizer of a Keras, once.

    Raises:
        UnsupportedVersionError: It lacks what is needed.
    """
    table = KERAS_3 if package.generation == 3 else KERAS_2
    patches.install(table, package, package.title, is_single_process=peer.is_single_process)


def apply(original: Any, self: Any, grads: Any, trainable_variables: Any = None) -> None:
    """Keras 3: exchanges the gradients before Keras looks at them, if each step is an update."""
    if not generations.is_wrapped(self.inner_optimizer):
        return original(self, grads, trainable_variables)
    given = self._trainable_variables if trainable_variables is None else trainable_variables
    variables = list(given)
    with whole_step.of(self, variables):
        _apply(functools.partial(original, self), self, list(grads), variables, trainable_variables)


def _apply(
    original: Any, self: Any, grads: list[Any], variables: list[Any], trainable_variables: Any
) -> None:
    inner = self.inner_optimizer
    if isinstance(inner, Keras3Optimizer) and not inner.kungfu_accumulates():
        scale = generations.native(self.dynamic_scale) if self.built else self.initial_scale
        with context.within(scale=scale):
            grads = inner.kungfu_gradients(grads, variables)
        with inner.kungfu_taking_exchanged():
            return original(grads, trainable_variables)
    is_own = any(one.applies_own_gradients for one in generations.algorithms_of(inner))
    grads = weighted(grads, variables, is_own=is_own)
    with sample_weights.unweighted():
        original(grads, trainable_variables)


def check_finite(original: Any, self: Any, grads: Any) -> Any:
    """Keras 3: whether the gradients of all peers are finite."""
    finite = original(self, grads)
    inner = self.inner_optimizer
    algorithms = generations.algorithms_of(inner)
    meets = Meets.of_all(algorithm.meets for algorithm in algorithms)
    if not algorithms or peer.is_single_process() or meets is not Meets.EVERY_STEP:
        return finite
    if isinstance(inner, Keras3Optimizer) and inner.kungfu_state.takes_exchanged:
        return finite
    name = f"{algorithms[0].name}/finite"
    return tf.cast(ops.all_reduce(tf.cast(finite, tf.uint8), op="min", name=name), tf.bool)


def apply_gradients(
    original: Any, self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any
) -> Any:
    """Keras 2: adds zeros for gradients that only other peers have."""
    inner = self.inner_optimizer
    if not isinstance(inner, Keras2Optimizer):
        return original(self, grads_and_vars, *args, **kwargs)
    pairs = inner.kungfu_completed_pairs(grads_and_vars)
    with whole_step.of(self, [v for _, v in pairs]), inner.kungfu_taking_completed():
        return original(self, pairs, *args, **kwargs)


_OPTIMIZER = Owner(
    "LossScaleOptimizer", lambda package, name: package.module.optimizers.LossScaleOptimizer
)
KERAS_3 = (
    Patch(_OPTIMIZER, "apply", apply, "all peers skip a step or none"),
    Patch(_OPTIMIZER, "check_finite", check_finite, "all peers skip a step or none"),
)


def _of_keras_2(name: str) -> Owner:
    home = "mixed_precision.loss_scale_optimizer"
    return Owner(name, lambda package, _: getattr(package.private(home), name))


KERAS_2 = tuple(
    Patch(
        _of_keras_2(name), "apply_gradients", apply_gradients, "all peers update the same variables"
    )
    for name in ("LossScaleOptimizerV3", "LossScaleOptimizer")
)
