"""Peers that an error has left at different places in a program come together again.

Operations are numbered by name, so a peer whose step ended early would for ever be one behind. When
a `fit` ends with an error the epoch is interrupted: the others leave theirs with the same error,
at once, and the next `fit` is in a new epoch, whose numbers start at 0 on all peers.
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
# Of what TensorFlow says all that is indented tells where, as these lines do.
_WHERE = re.compile(
    r"\s|Graph execution error:|Detected at node|Traceback |<stack traces|Function call stack|$"
)
# What pybind11 makes of a Ctrl-C that comes while TensorFlow makes an error of what failed.
_REPLACED = "REPLACED BY KeyboardInterrupt"


class LeaveTogether(BaseException):
    """Leaves `together` on all peers at the same place: nobody has to be told."""


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Nobody is left alone in it: an error that leaves it on one peer ends it on all."""
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
    """Tells the others that this peer leaves what all do together, and why."""
    with contextlib.suppress(errors.KungfuError):  # that peers are gone is known
        peer.interrupt(_code(error), f"{what} was left by {_reason(error)}")
        peer.begin_epoch()


def enter_new_epoch(first: Callable[[], T]) -> T:
    """Calls what all peers do first, in an epoch that nobody has interrupted."""
    while True:
        if peer.interrupted():
            peer.begin_epoch()
        try:
            return first()
        except tf.errors.OpError:
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
