"""Warns a process that trains alone though another launcher has started several."""

from __future__ import annotations

import os

from kungfu_tf import peer
from kungfu_tf.environments import detection
from kungfu_tf.upstream.warn import warn

_SHOWN = 60  # characters of a variable

_has_warned = False


def warn_if_alone() -> None:
    """Warns, once in a process, if another launcher than `kungfu-run` has started several."""
    global _has_warned
    if _has_warned or peer.launched():
        return
    found = detection.detect(os.environ)
    if found is None:
        return
    _has_warned = True
    text = found.text if len(found.text) <= _SHOWN else f"{found.text[:_SHOWN]}..."
    number = "several" if found.number is None else found.number
    warn(
        f"this process trains alone (kungfu_tf.size() is 1), but {found.launcher} says that there "
        f"are {number} processes: {found.variable}={text}. kungfu_tf does not take part in that. "
        f"Start the program once, with kungfu-run -np {found.number or 'N'} python ..."
    )
