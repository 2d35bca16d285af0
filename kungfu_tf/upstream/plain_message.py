"""The message of a TensorFlow error, without the place in TensorFlow."""

from __future__ import annotations

import re
from typing import Any

_OP = re.compile(r"\{\{function_node \S*?\}\}\s*|\s*\[Op:\S*?\](\s*name:\s*)?$")


def plain_message(error: Any) -> str:
    """The message of a `tf.errors.OpError`."""
    return _OP.sub("", error.message)
