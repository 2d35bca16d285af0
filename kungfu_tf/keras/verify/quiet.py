"""Layers that a trial leaves out: random ones, and those that mix the samples of a batch."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from kungfu_tf.replicas import layer_calls, randomness
from kungfu_tf.upstream import generations


@contextlib.contextmanager
def quiet(model: Any) -> Iterator[list[str]]:
    """Within it they work as in inference. Yields the names of their classes."""
    normalizes = generations.package_of(model).module.layers.BatchNormalization
    found = [
        layer
        for layer in model._flatten_layers()
        if (isinstance(layer, normalizes) or randomness.draws(layer))
        and "training" in inspect.signature(layer.call).parameters
    ]
    with contextlib.ExitStack() as stack:
        for layer in found:
            stack.enter_context(layer_calls.replaced(layer, _as_in_inference))
        yield sorted({type(layer).__name__ for layer in found})


def _as_in_inference(call: Callable[..., Any]) -> Callable[..., Any]:
    def quietly(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(call).bind(*args, **kwargs)
        given.arguments["training"] = False
        return call(*given.args, **given.kwargs)

    return quietly
