"""The error of a peer, within the message of Spark about its task."""

from __future__ import annotations

import base64
import json
import re

from kungfu_tf import errors

_MARKED = re.compile(r"<kungfu_tf:([A-Za-z0-9+/=]+)>")


def packed(error: errors.PeerFailedError) -> errors.PeerFailedError:
    """The error, with a mark from which `unpacked` makes it again.

    Spark adds lines of its own before and after its text, in which any text may stand.
    """
    record = json.dumps([str(error), error.rank, error.host]).encode()
    return errors.PeerFailedError(f"{error}\n<kungfu_tf:{base64.b64encode(record).decode()}>")


def unpacked(message: str) -> errors.PeerFailedError | None:
    """The error whose mark is in a message of Spark, if there is one."""
    if (marked := _MARKED.search(message)) is None:
        return None
    text, rank, host = json.loads(base64.b64decode(marked[1]))
    return error_of(rank, host, text)


def error_of(rank: int, host: str, text: str) -> errors.PeerFailedError:
    """The error for a peer."""
    error = errors.PeerFailedError(text)
    error.rank, error.host = rank, host
    return error
