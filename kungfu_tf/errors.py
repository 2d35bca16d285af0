"""The errors of kungfu_tf.

    KungfuError
      CancelledError            this peer was shut down, or the caller gave up
      InvalidArgumentError      also a ValueError: the request makes no sense
        UnsupportedTypeError    also a TypeError: ... for a tensor of this type
      DeadlineExceededError     a peer did not take part in time
      PermissionDeniedError     a peer could not prove that it belongs to the job, or the system
                                forbids it
      ResourceExhaustedError    a limit was reached
      FailedPreconditionError   not possible now, e.g. after shutdown
      AbortedError              the peers changed: retry with the new ones
      UnimplementedError        not supported by this version
      InternalError             a bug in kungfu_tf
      UnavailableError          a peer is gone
      DivergenceError           the peers' variables are no longer equal
      PolicyError               a policy raised
      PeerFailedError           a process that `launch` has started failed
      LibraryError              the native library is missing, does not fit, or cannot be built
      UnsupportedVersionError   this version of Keras or TensorFlow does not work with kungfu_tf
      VerificationError         `kungfu-run -verify` found that peers train unlike one process

An op that fails while it runs raises TensorFlow's error of the same code, because its status goes
through the graph: `tf.errors.UnavailableError` for `UnavailableError`, and so on.
"""

from __future__ import annotations

__all__ = [
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    "DivergenceError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "KungfuError",
    "LibraryError",
    "PeerFailedError",
    "PermissionDeniedError",
    "PolicyError",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnimplementedError",
    "UnsupportedTypeError",
    "UnsupportedVersionError",
    "VerificationError",
]


class KungfuError(Exception):
    """The base of all errors that kungfu_tf raises.

    Attributes:
        code: The canonical code, with TensorFlow's numbers.
    """

    code = 2


class CancelledError(KungfuError):
    """This peer was shut down, or the caller gave up."""

    code = 1


class InvalidArgumentError(KungfuError, ValueError):
    """The request of the caller, or of another peer, makes no sense."""

    code = 3


class UnsupportedTypeError(InvalidArgumentError, TypeError):
    """An operation is not defined for the type of a tensor."""


class DeadlineExceededError(KungfuError):
    """Peers did not take part in time: the message names them."""

    code = 4


class PermissionDeniedError(KungfuError):
    """A peer could not prove that it belongs to the job, or may not use the files of the job."""

    code = 7


class ResourceExhaustedError(KungfuError):
    """A limit was reached."""

    code = 8


class FailedPreconditionError(KungfuError):
    """Not possible in the current state, e.g. after `shutdown`."""

    code = 9


class AbortedError(KungfuError):
    """The peers changed: retry with the new ones."""

    code = 10


class UnimplementedError(KungfuError):
    """Not supported by this version."""

    code = 12


class InternalError(KungfuError):
    """A bug in kungfu_tf."""

    code = 13


class UnavailableError(KungfuError):
    """A peer is gone."""

    code = 14


class DivergenceError(KungfuError):
    """Variables that should be equal on all peers differ: the message says which, and where."""

    code = 15


class VerificationError(KungfuError):
    """`kungfu-run -verify` found that a step on several peers is unlike that of one process."""

    code = 15


class PolicyError(KungfuError):
    """A policy raised: the message names it, and its error is the cause."""


class PeerFailedError(KungfuError):
    """A process that `launch` has started raised, exited or was killed.

    Attributes:
        rank: The rank of the process.
        host: The host it ran on.
    """

    rank = 0
    host = ""


class LibraryError(KungfuError):
    """The native library is missing, does not fit the installed TensorFlow, or cannot be built."""

    code = 9


class UnsupportedVersionError(KungfuError):
    """This version of Keras or TensorFlow does not work with kungfu_tf: the message says why."""

    code = 9


_BY_CODE: dict[int, type[KungfuError]] = {
    error.code: error
    for error in (
        CancelledError,
        InvalidArgumentError,
        DeadlineExceededError,
        PermissionDeniedError,
        ResourceExhaustedError,
        FailedPreconditionError,
        AbortedError,
        UnimplementedError,
        InternalError,
        UnavailableError,
    )
}


def linked(anchor: str, message: str) -> str:
    """The message of an error, with a link to the documentation that says what to do.

    Args:
        anchor: A row of docs/reference/messages.md, such as "slots".
        message: The text of the error.
    """
    return f"{message} (kungfu_tf docs: messages#{anchor})"


def from_code(code: int, message: str) -> KungfuError:
    """The error for a status of the core; it has the code even if there is no class for it."""
    error = _BY_CODE.get(code, KungfuError)(message)
    error.code = code
    return error
