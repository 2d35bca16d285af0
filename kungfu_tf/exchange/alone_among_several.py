"""Warns a process that trains alone, and seems to be meant as one of several."""

from __future__ import annotations

import os

from kungfu_tf import config
from kungfu_tf.environments import detection
from kungfu_tf.upstream.warn import warn

_has_warned = False


def warn_if_alone() -> None:
    """Warns, once in a process, if variables speak of several processes, and it is one of one."""
    global _has_warned
    if _has_warned or config.identity().peer:
        return
    doubt = detection.doubt(os.environ)
    if doubt is None or detection.detect(os.environ):
        return
    _has_warned = True
    warn(
        f"this process trains alone (kungfu_tf.size() is 1), but {doubt}, or set "
        f"{config.ENVIRONMENT.name}=none"
    )
