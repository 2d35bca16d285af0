"""Variables of which each peer has its own, as `kungfu_tf.layers.local` marks them.

They are not exchanged, not made equal and not compared. Their shapes may differ between peers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops
from kungfu_tf.ops.gradient_values import values_of, with_values
from kungfu_tf.replicas import sample_weights
from kungfu_tf.upstream import generations

_OF_MEAN = 0.0


def mark(variable: Any, scale: float | None) -> None:
    """Makes a variable local.

    Args:
        variable: Of Keras, or a `tf.Variable`.
        scale: The factor of its gradients; None: one divided by the number of peers.
    """
    native = generations.native(variable)
    native._kungfu_local = _OF_MEAN if scale is None else scale
    native._kungfu_combine = "own"


def is_local(variable: Any) -> bool:
    """Whether it was marked. It may be a tensor, which cannot be."""
    return _scale_of(variable) is not None


def exchanged(
    gradients: Sequence[Any],
    variables: Sequence[Any],
    exchange: Callable[[list[Any], list[Any]], Sequence[Any]],
    *,
    is_own: bool = False,
) -> list[Any]:
    """The gradients after an exchange. Those of local variables are this peer's own, scaled.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        variables: The variables that they belong to.
        exchange: Exchanges the gradients of the variables that are not local.
        is_own: Whether it leaves them this peer's own. Then local ones without a scale are so, too.
    """
    result = of_shared(gradients, variables, exchange)
    for i, variable in enumerate(variables):
        if is_local(variable) and result[i] is not None:
            result[i] = _scaled(result[i], variable, is_own=is_own)
    return result


def of_shared(
    gradients: Sequence[Any],
    variables: Sequence[Any],
    change: Callable[[list[Any], list[Any]], Sequence[Any]],
) -> list[Any]:
    """The gradients, of which `change` was given those of the variables that are not local."""
    shared = [i for i, variable in enumerate(variables) if not is_local(variable)]
    result = list(gradients)
    changed = change([gradients[i] for i in shared], [variables[i] for i in shared])
    for i, gradient in zip(shared, changed, strict=True):
        result[i] = gradient
    return result


def weighted(gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """The gradients times this peer's weight in the step, but for those that `mark` gave a scale.

    Args:
        gradients: Tensors, `tf.IndexedSlices` or None.
        variables: The variables that they belong to.
    """
    result = list(gradients)
    chosen = [i for i, v in enumerate(variables) if _scale_of(v) in (None, _OF_MEAN)]
    changed = sample_weights.weighted([gradients[i] for i in chosen], sample_weights.current())
    for i, gradient in zip(chosen, changed, strict=True):
        result[i] = gradient
    return result


def shared(variables: Iterable[Any], trained: Iterable[Any]) -> list[Any]:
    """The variables that are not local, nor an optimizer's slot of one that is.

    Args:
        variables: Variables, also an optimizer's.
        trained: The variables that the optimizer trains.
    """
    trained = list(trained)
    paths = [generations.name_of(v).split(":")[0] for v in trained if is_local(v)]
    of_model = {id(v) for v in trained}
    return [
        v for v in variables if not is_local(v) and (id(v) in of_model or not _is_slot_of(v, paths))
    ]


def averaged(variables: Iterable[Any]) -> list[Any]:
    """The variables that are averaged where peers differ: floating ones of all peers.

    New values of quantised layers (`exchange/new_values.py`) are not among them.

    Args:
        variables: What an optimizer trains.
    """
    given = [v for v in variables if not getattr(v, "overwrite_with_gradient", False)]
    natives = [generations.native(v) for v in given if not is_local(v)]
    return [v for v in natives if v.dtype.is_floating]


def _scale_of(variable: Any) -> float | None:
    if isinstance(getattr(variable, "value", None), tf.Variable):  # of Keras 3
        variable = variable.value
    scale: float | None = getattr(variable, "_kungfu_local", None)
    return scale


def _scaled(gradient: Any, variable: Any, *, is_own: bool) -> Any:
    scale = _scale_of(variable)
    if scale == _OF_MEAN and is_own:
        return sample_weights.of_samples([gradient])[0]
    if scale == _OF_MEAN:
        [weighted] = sample_weights.weighted([gradient], sample_weights.current())
        values = values_of(weighted)
        return with_values(weighted, values / tf.cast(ops.cluster_size(), values.dtype))
    values = values_of(gradient)
    return with_values(gradient, values * tf.cast(scale, values.dtype))


def _is_slot_of(variable: Any, paths: Sequence[str]) -> bool:
    """Whether its name is one that an optimizer makes of one of these.

    It is m/<path> in Keras 2, <optimizer>/<path>/m in its legacy optimizers, and
    <optimizer>/<path with _ for />_m in Keras 3.
    """
    name = f"/{generations.name_of(variable).split(':')[0]}/"
    return any(f"/{path}/" in name or f"/{path.replace('/', '_')}_" in name for path in paths)
