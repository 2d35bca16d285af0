"""Layers that a trial leaves out: random ones, and those that mix the samples of a batch."""

from __future__ import annotations

import contextlib
import gc
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kungfu_tf.replicas import layer_calls, randomness
from kungfu_tf.upstream import generations


@contextlib.contextmanager
def quiet(layers: Iterable[Any], left_out: set[str]) -> Iterator[None]:
    """Within it they work as in inference.

    Args:
        layers: Of Keras.
        left_out: To which the classes are added of those that are called.
    """
    normalizes = tuple(p.module.layers.BatchNormalization for p in generations.packages())
    found = [
        layer
        for layer in layers
        if (isinstance(layer, normalizes) or randomness.draws(layer))
        and "training" in inspect.signature(layer.call).parameters
    ]
    with contextlib.ExitStack() as stack:
        for layer in found:
            quietly = _as_in_inference(type(layer).__name__, left_out)
            stack.enter_context(layer_calls.replaced(layer, quietly))
        yield


def layers_of_process() -> list[Any]:
    """All that are alive. In Keras 2 metrics are layers, too: they are not among them."""
    packages = generations.packages()
    classes = tuple(package.module.layers.Layer for package in packages)
    others = tuple(package.module.metrics.Metric for package in packages)
    return [
        one
        for one in gc.get_objects()
        if issubclass(type(one), classes) and not issubclass(type(one), others)
    ]


def _as_in_inference(
    name: str, left_out: set[str]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def replace(call: Callable[..., Any]) -> Callable[..., Any]:
        def quietly(*args: Any, **kwargs: Any) -> Any:
            left_out.add(name)
            given = inspect.signature(call).bind(*args, **kwargs)
            given.arguments["training"] = False
            return call(*given.args, **given.kwargs)

        return quietly

    return replace
