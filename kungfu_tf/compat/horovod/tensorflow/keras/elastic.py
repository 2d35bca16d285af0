"""The state of a Keras model that is committed to memory, and restored from it."""

from __future__ import annotations

from typing import Any

from horovod.tensorflow.elastic import TensorFlowKerasState

__all__ = ["KerasState"]


class KerasState(TensorFlowKerasState):
    """A Keras model and its optimizer, and objects as attributes.

    Args:
        model: A model that is built.
        optimizer: Its optimizer; None: the one that it is compiled with.
        **kwargs: The objects.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        super().__init__(model, optimizer, **kwargs)
