"""Tensors that this peer keeps for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from kungfu_tf import ops


def save_variable(t: Any, version: Any = None, name: str | None = None) -> Any:
    """Keeps a copy of a tensor, under its own name if none is given."""
    return ops.save_variable(t, version=version, name=name)


def save_variables(variables: Sequence[Any]) -> Any:
    """Keeps a copy of each, under their own names."""
    return tf.group(*ops.save_variables(variables))


def save_model(variables: Sequence[Any]) -> Any:
    """The same, by its older name."""
    return save_variables(variables)
