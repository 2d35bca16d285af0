"""Ends the work of all peers if it fails on one, and lets them begin together again.

The core numbers operations by name. After an error on one peer these numbers would differ between
the peers. So a `fit` that fails interrupts the epoch of the core: the other peers leave theirs at
once with the same error. The next `fit` begins a new epoch, whose numbers start at 0 on all peers.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import tensorflow as tf

from kungfu_tf import errors, peer
from kungfu_tf.upstream.plain_message import plain_message

T = TypeVar("T")

_LONGEST_REASON = 300
# Indented lines of TensorFlow's messages, and these, tell the place of an error.
_WHERE = re.compile(
    r"\s|Graph execution error:|Detected at node|Traceback |<stack traces|Function call stack|$"
)
# pybind11's text for a Ctrl-C that comes while TensorFlow turns a failure into an error.
_REPLACED = "REPLACED BY KeyboardInterrupt"


class LeaveTogether(BaseException):
    """Raised on all peers at the same place within `together`, so no peer has to be told."""


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Within it an error on one peer ends the work of all."""
    try:
        yield
    except LeaveTogether:
        raise
    except BaseException as error:
        announce_failure("fit", error)
        if isinstance(error, RuntimeError) and _REPLACED in str(error):
            raise KeyboardInterrupt from error
        raise


def announce_failure(what: str, error: BaseException) -> None:
    """Tells the other peers that this one leaves their common work, and begins a new epoch."""
    interrupt(what, error)
    with contextlib.suppress(errors.KungfuError):  # a peer may be gone
        peer.begin_epoch()


def interrupt(what: str, error: BaseException) -> None:
    """Ends the common work of all peers in this epoch. The caller begins the next one."""
    reason = errors.linked("fit-left", f"{what} was left by {_reason(error)}")
    with contextlib.suppress(errors.KungfuError):
        peer.interrupt(_code(error), reason)


def enter_new_epoch(first: Callable[[], T]) -> T:
    """Returns `first()`, the first meeting of all peers, in an epoch that is not interrupted."""
    while True:
        if peer.interrupted():
            peer.begin_epoch()
        try:
            return first()
        except (tf.errors.OpError, errors.KungfuError):
            if not peer.interrupted():
                raise


def _code(error: BaseException) -> int:
    if isinstance(error, tf.errors.OpError):
        return int(error.error_code)
    return error.code if isinstance(error, errors.KungfuError) else errors.AbortedError.code


def _reason(error: BaseException) -> str:
    name, text = type(error).__name__, str(error).strip()
    if isinstance(error, tf.errors.OpError):
        lines = plain_message(error).strip().splitlines()
        said = dict.fromkeys(line for line in lines if not _WHERE.match(line))
        text = "; ".join(said) or text
    if len(text) > _LONGEST_REASON:
        text = text[:_LONGEST_REASON] + "..."
    return f"{name}: {text}" if text else name
