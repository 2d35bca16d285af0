"""Frontends are installed when something uses them: lower rooms say what, and know no frontend.

`kungfu_tf/__init__.py` registers the frontends. Code that wraps an optimizer, or makes a callback
or hook of ours, tells that it is used.
"""

from __future__ import annotations

from collections.abc import Callable

KERAS = "keras"
SESSIONS = "sessions"
ESTIMATORS = "estimators"

_installers: dict[str, Callable[[], None]] = {}


def register(frontend: str, install: Callable[[], None]) -> None:
    """Says how a frontend is installed. `install` may be called often, and works once."""
    _installers[frontend] = install


def use(frontend: str) -> None:
    """Installs a frontend: KERAS, SESSIONS, or ESTIMATORS, which are sessions and more.

    Raises:
        UnsupportedVersionError: If Keras or TensorFlow lacks a name that the frontend needs.
    """
    _installers[frontend]()
