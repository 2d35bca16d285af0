"""Warnings that point at a line of the program, even if they arise deep in Keras."""

from __future__ import annotations

import sys
import warnings

_LIBRARIES = ("kungfu_tf", "kungfu", "keras", "tf_keras", "tensorflow", "contextlib")


def warn(message: str) -> None:
    """Warns at the innermost line that is neither ours nor Keras' or TensorFlow's."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_of_a_library(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _is_of_a_library(module: str) -> bool:
    return module.split(".")[0] in _LIBRARIES
