"""Every environment variable that we read: the core's and those of Python, as one list.

Each is declared once, in ops/base/config.h or config.py.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kungfu_tf import config
from kungfu_tf.native import libraries

_OURS = "KUNGFU_"


class Variable(NamedTuple):
    """One of them.

    Attributes:
        name: The variable.
        meaning: One line for the user.
        default: What holds where it is not set; empty: nothing does.
        check: Raises a KungfuError if the variable cannot be this text, which is not empty.
    """

    name: str
    meaning: str
    default: Callable[[], str]
    check: Callable[[str], None]


def variables() -> list[Variable]:
    """All.

    Raises:
        LibraryError: The core is missing, which alone knows its own.
    """
    return core_variables() + python_variables()


def core_variables() -> list[Variable]:
    """Those that the core reads.

    Raises:
        LibraryError: It is missing.
    """
    return [_of_core(*row) for row in libraries.environment()]


def python_variables() -> list[Variable]:
    """Those that Python reads."""
    return [_of_setting(setting) for setting in config.SETTINGS]


def strategies() -> tuple[str, ...]:
    """What KUNGFU_STRATEGY may be, AUTO first.

    Raises:
        LibraryError: The core is missing, which alone knows them.
    """
    names = map(libraries.core().kungfu_strategy_name, itertools.count())
    return tuple(name.decode() for name in itertools.takewhile(bool, names))


def unknown(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that is called as ours are, and that nobody reads.

    Raises:
        LibraryError: The core is missing.
    """
    known, called = _ours(variable.name for variable in variables()), _ours(environ)
    return [_unknown(name, known) for name in called if name not in known]


def _ours(names: Iterable[str]) -> list[str]:
    """Those that are called as ours are, without what all of these begin with."""
    return sorted(name.removeprefix(_OURS) for name in names if name.startswith(_OURS))


def _unknown(name: str, known: list[str]) -> str:
    # What all begin with would make everything near.
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {_OURS}{near[0]}?" if near else ""
    return f"there is no variable {_OURS}{name}{hint}"


def _of_core(name: str, default: str, meaning: str) -> Variable:
    return Variable(
        name, meaning, lambda: default, lambda text: libraries.check_variable(name, text)
    )


def _of_setting(setting: config.Setting[Any]) -> Variable:
    def check(text: str) -> None:
        setting.get(environ={setting.name: text})

    return Variable(setting.name, setting.meaning, lambda: _shown(setting.default()), check)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return str(int(value))
    return ",".join(value) if isinstance(value, tuple) else str(value)
