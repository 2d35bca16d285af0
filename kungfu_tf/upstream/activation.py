"""Installs a frontend when something uses it, although lower rooms know no frontend.

`kungfu_tf/__init__.py` registers the frontends. Code that wraps an optimizer, or makes a callback
or hook of ours, calls `use`.
"""

from __future__ import annotations

from collections.abc import Callable

KERAS = "keras"
SESSIONS = "sessions"
ESTIMATORS = "estimators"

_installers: dict[str, Callable[[], None]] = {}


def register(frontend: str, install: Callable[[], None]) -> None:
    """Registers how a frontend is installed. `install` may be called often, and works once."""
    _installers[frontend] = install


def use(frontend: str) -> None:
    """Installs a frontend: KERAS, SESSIONS, or ESTIMATORS, which are sessions and more.

    Raises:
        UnsupportedVersionError: If Keras or TensorFlow lacks a name that the frontend needs.
    """
    _installers[frontend]()
