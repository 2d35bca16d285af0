"""Layers that a trial leaves out: random ones, and those that mix the samples of a batch."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from kungfu_tf.replicas import randomness
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
    for layer in found:
        vars(layer)["call"] = _as_in_inference(layer.call)
    try:
        yield sorted({type(layer).__name__ for layer in found})
    finally:
        for layer in found:
            del vars(layer)["call"]


def _as_in_inference(call: Callable[..., Any]) -> Callable[..., Any]:
    def quietly(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(call).bind(*args, **kwargs)
        given.arguments["training"] = False
        return call(*given.args, **given.kwargs)

    return quietly
