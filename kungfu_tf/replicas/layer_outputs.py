"""The outputs of each layer of a model."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf.replicas import layer_calls

Outputs = list[tuple[str, list[Any] | None]]


def outputs_of_layers(model: Any, infer: Callable[[], list[Any] | None]) -> Outputs:
    """The arrays that each call of a layer returns, in order, and those of the model.

    Args:
        model: A Keras model.
        infer: Calls the model, and returns its arrays, or None.

    Returns:
        Pairs: the name of a layer for messages, and its arrays.
    """
    found: Outputs = []
    with contextlib.ExitStack() as stack:
        for layer in model._flatten_layers():
            if layer is not model:
                stack.enter_context(_noting_calls(layer, found))
        output = infer()
    return [*found, (f"model '{model.name}'", output)]


def tensors_in(output: Any) -> list[Any]:
    """The values of the eager tensors in an output. Tensors of a graph have none."""
    parts = tf.nest.flatten(output, expand_composites=True)
    return [np.asarray(part) for part in parts if tf.is_tensor(part) and hasattr(part, "numpy")]


def _noting_calls(layer: Any, found: Outputs) -> contextlib.AbstractContextManager[None]:
    def noting(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def noted(*args: Any, **kwargs: Any) -> Any:
            output = call(*args, **kwargs)
            found.append((f"layer '{layer.name}' ({type(layer).__name__})", tensors_in(output)))
            return output

        return noted

    return layer_calls.replaced(layer, noting)
