"""A program that trains nothing by kungfu_tf is told so, under -verify: nobody else would speak.

It imports no TensorFlow: it is there in every program.
"""

from __future__ import annotations

import atexit
import os
import sys

from kungfu_tf import config

_has_spoken = False


def begin() -> None:
    """Says so at the end of the program, if -verify has said nothing before."""
    identity = config.identity()
    first = os.environ.get("KUNGFU_PEERS", "").split(",")[0]
    if os.environ.get("KUNGFU_MEMBERSHIP") == "joining":  # which knows itself only
        return
    if identity.peer and identity.peer == first and config.VERIFY.get():
        atexit.register(_end)


def speak(text: str) -> None:
    """Prints a line of -verify."""
    global _has_spoken
    _has_spoken = True
    print(f"kungfu_tf: -verify: {text}", file=sys.stderr, flush=True)


def _end() -> None:
    has_failed = getattr(sys, "last_value", None) is not None
    if not _has_spoken and not has_failed:
        speak("nothing is verified: the program has trained nothing with other peers")
