"""Only one thread at a time may be in a `fit` that all peers share.

Peers match operations by their order. With two threads each peer has another order, and the
gradients of two trainings would be averaged.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from kungfu_tf import errors
from kungfu_tf.membership import failing_together

_lock = threading.Lock()
_inside: list[threading.Thread] = []  # for each `fit`: a callback may train another model


@contextlib.contextmanager
def in_this_thread() -> Iterator[None]:
    """Within it no other thread can enter.

    Raises:
        FailedPreconditionError: If another thread is inside. Its training ends, too, on all peers,
            since another peer may have matched it with the wrong one.
    """
    me = threading.current_thread()
    with _lock:
        if _inside and _inside[-1] is not me:
            error = errors.FailedPreconditionError(
                f"fit: thread '{me.name}' trains while another thread, '{_inside[-1].name}', does. "
                "Peers could not tell which training a gradient is of. Train one model after the "
                "other, or each in a job of its own"
            )
            failing_together.interrupt("fit", error)
            raise error
        _inside.append(me)
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
