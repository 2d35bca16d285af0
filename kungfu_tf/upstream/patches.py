"""Tables of the names of Keras and TensorFlow that we patch, override or call.

The rows of a table are installed together. A name is *needed* if training would be wrong or would
hang without it, else it is a *comfort*. A new version of Keras or TensorFlow may lack a name:

- Without a comfort there is one warning that says what is lost. Everything else works.
- Without a need there is one error that names the versions that work, before anything is trained or
  patched.
- In a process that trains alone there is neither. Nothing is patched, and nothing is lost.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kungfu_tf.upstream import versions
from kungfu_tf.upstream.warn import warn


@dataclasses.dataclass(frozen=True)
class Owner:
    """A class or module of another package that has functions to patch.

    Attributes:
        label: Its name, for messages and the documentation.
        find: Returns the class or module, from the package and the name of the function. It may
            raise AttributeError, ImportError or LookupError.
    """

    label: str
    find: Callable[[Any, str], Any]


@dataclasses.dataclass(frozen=True)
class Patch:
    """A row of a table: one function of Keras or TensorFlow.

    Attributes:
        owner: The class or module that it belongs to.
        name: Its name there.
        ours: Called in its place as `ours(original, ...)`. None: it stays as it is, and we call it,
            or override it in a subclass.
        purpose: The benefit that is lost without it.
        is_needed: Whether training is wrong without it.
    """

    owner: Owner
    name: str
    ours: Callable[..., Any] | None
    purpose: str
    is_needed: bool = True

    @property
    def label(self) -> str:
        """The name of the patch, for messages and the documentation."""
        return f"{self.owner.label}.{self.name}"


T = TypeVar("T")

_warned: set[tuple[str, str]] = set()


def install(
    patches: Iterable[Patch], package: Any, title: str, *, is_single_process: Callable[[], bool]
) -> None:
    """Installs all patches of a table, or none. A second call does nothing.

    Args:
        patches: The table.
        package: The package in which the owners are found.
        title: The package with its version, for messages: "keras 3.15.1".
        is_single_process: Returns whether this process trains alone. Called only if a name is
            missing.

    Raises:
        UnsupportedVersionError: If a needed name is missing, and there are other processes.
    """
    found, missing = [], []
    for patch in patches:
        try:
            owner = patch.owner.find(package, patch.name)
            getattr(owner, patch.name)
        except (AttributeError, ImportError, LookupError):
            missing.append(patch)
        else:
            found.append((owner, patch))
    needed = [patch for patch in missing if patch.is_needed]
    if needed and is_single_process():
        return
    if needed:
        names = ", ".join(f"{patch.label} ({patch.purpose})" for patch in needed)
        raise versions.unsupported(title, f"it has no {names}")
    if missing and not is_single_process():
        _warn_of_lost_comfort(title, [(patch.label, patch.purpose) for patch in missing])
    for owner, patch in found:
        if patch.ours is not None:
            replace(owner, patch.name, patch.ours)


def comfort(title: str, label: str, purpose: str, find: Callable[[], T]) -> T | None:
    """Returns the result of `find`. If that raises, it warns once and returns None.

    Args:
        title: The package, as for `install`.
        label: The name that is looked for.
        purpose: The benefit that is lost without it.
        find: Looks for it. It may raise AttributeError or ImportError.
    """
    try:
        return find()
    except (AttributeError, ImportError):
        _warn_of_lost_comfort(title, [(label, purpose)])
        return None


def _warn_of_lost_comfort(title: str, lost: list[tuple[str, str]]) -> None:
    """Warns once of missing names, with their purposes."""
    names = ", ".join(f"{label} ({purpose})" for label, purpose in lost)
    if (title, names) not in _warned:
        _warned.add((title, names))
        warn(
            f"{title} has no {names}, as the supported versions have: {versions.SUPPORTED}. "
            "Training is right without it"
        )


def replace(owner: Any, name: str, ours: Callable[..., Any]) -> None:
    """Makes `owner.name(...)` call `ours(original, ...)`. A second call does nothing."""
    original = getattr(owner, name)
    if hasattr(original, "kungfu_replaced"):
        return

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        return ours(original, *args, **kwargs)

    replaced.kungfu_replaced = original  # type: ignore[attr-defined]
    setattr(owner, name, replaced)


def original(owner: Any, name: str) -> Any:
    """The function that `owner.name` was before it was patched."""
    function = getattr(owner, name)
    return getattr(function, "kungfu_replaced", function)


def defining(cls: type, name: str) -> type:
    """The class that defines a method of `cls`: itself, or a base class of any name.

    Raises:
        LookupError: If no class defines it.
    """
    for base in cls.__mro__:
        if name in vars(base):
            return base
    raise LookupError(f"no class of {cls.__name__} defines {name}")


def class_used_by(function: Callable[..., Any], method: str) -> type:
    """The class with a `method` that the code of `function` names, whatever its name.

    Raises:
        LookupError: If it names none.
    """
    function = _innermost(function)
    for name in function.__code__.co_names:
        used = function.__globals__.get(name)
        if isinstance(used, type) and hasattr(used, method):
            return used
    raise LookupError(f"{function.__qualname__} uses no class with {method}")


def _innermost(function: Any) -> Any:
    """The function inside decorators (`functools.wraps`), ours and others'."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
