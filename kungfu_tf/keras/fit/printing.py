"""Rank 0 prints for all peers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kungfu_tf import config, peer
from kungfu_tf.upstream import generations

_TELLERS = ("EarlyStopping", "LearningRateScheduler", "ReduceLROnPlateau")


def verbosity(asked: Any) -> Any:
    """The argument `verbose` on this peer, where the program asked for this one."""
    return asked if _prints() else 0


@contextlib.contextmanager
def quiet(callbacks: list[Any]) -> Iterator[None]:
    """Within it Keras' callbacks print on rank 0 only, though they work on all peers."""
    keras = [package.module.callbacks for package in generations.packages()]
    tellers = tuple(getattr(module, name) for module in keras for name in _TELLERS)
    quieted = [] if _prints() else [c for c in callbacks if isinstance(c, tellers)]
    asked = [c.verbose for c in quieted]
    for callback in quieted:
        callback.verbose = 0
    try:
        yield
    finally:
        for callback, verbose in zip(quieted, asked, strict=True):
            callback.verbose = verbose


def _prints() -> bool:
    return peer.is_root() or config.VERBOSE.get() == "all"
