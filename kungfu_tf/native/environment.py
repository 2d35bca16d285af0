"""One list of all environment variables that kungfu_tf reads, in the core or in Python.

Each is declared once, in ops/peer/config.cc or config.py.
"""

from __future__ import annotations

import difflib
import itertools
import os
from collections.abc import Iterable, Mapping
from typing import Any

from kungfu_tf import config
from kungfu_tf.config import Setting
from kungfu_tf.native import libraries

_OURS = "KUNGFU_"


def settings() -> list[Setting[Any]]:
    """All settings, those of the core first.

    Raises:
        LibraryError: If the core is missing, which alone knows its own.
    """
    rows = map(libraries.core().kungfu_get_setting, itertools.count())
    of_core = [_of_core(row.contents) for row in itertools.takewhile(bool, rows)]
    return [*of_core, *config.SETTINGS]


def strategies() -> tuple[str, ...]:
    """The values of KUNGFU_STRATEGY, AUTO first.

    Raises:
        LibraryError: If the core is missing, which alone knows them.
    """
    names = map(libraries.core().kungfu_strategy_name, itertools.count())
    return tuple(name.decode() for name in itertools.takewhile(bool, names))


def unknown(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that is named like ours, but that kungfu_tf does not read.

    Raises:
        LibraryError: If the core is missing.
    """
    known, called = _ours(setting.name for setting in settings()), _ours(environ)
    return [_unknown(name, known) for name in called if name not in known]


def _of_core(row: libraries.Setting) -> Setting[str]:
    name: bytes = row.name

    def read(text: str) -> str:
        if libraries.core().kungfu_check_setting(name, os.fsencode(text)):
            raise ValueError
        return text

    return Setting(
        name.decode(),
        config.Type(row.type.decode(), read, row.unit.decode()),
        row.default_text.decode(),
        row.meaning.decode(),
        internal=bool(row.internal),
        secret=bool(row.secret),
    )


def _ours(names: Iterable[str]) -> list[str]:
    """The variables that are named like ours, without the common prefix."""
    return sorted(name.removeprefix(_OURS) for name in names if name.startswith(_OURS))


def _unknown(name: str, known: list[str]) -> str:
    # Without the common prefix, which would make all names similar.
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {_OURS}{near[0]}?" if near else ""
    return f"there is no variable {_OURS}{name}{hint}"
