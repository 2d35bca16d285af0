"""The pickles between the caller and its children."""

from __future__ import annotations

import importlib
import inspect
import io
import linecache
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kungfu_tf import errors
from kungfu_tf.function_launch import wrapping


class Call(NamedTuple):
    """A function with arguments."""

    fn: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


def dump_call(
    fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> bytes:
    """Pickles a call, and the sources of notebook cells, for tracebacks.

    Args:
        fn: The function.
        args: Its arguments; the last ones, if the child adds some of its own.
        kwargs: Its keyword arguments.

    Raises:
        InvalidArgumentError: If it cannot be pickled; the message names the reason.
        ModuleNotFoundError: If cloudpickle is not installed.
    """
    importlib.import_module("cloudpickle")
    typed = {name: entry for name, entry in linecache.cache.items() if _has_no_file(entry)}
    try:
        return _dumps((typed, fn, tuple(args), dict(kwargs or {})))
    except Exception as error:
        raise errors.InvalidArgumentError(
            f"{name_of(fn)} cannot be sent to other processes: {_culprits(fn) or error}. "
            "Let the function itself make or open objects that belong to one process"
        ) from error


def load_call(record: memoryview) -> Call:
    """Loads what `dump_call` has made."""
    typed, *call = pickle.loads(record)
    linecache.cache.update(typed)
    return Call(*call)


def dump_result(value: Any, fn: Callable[..., Any]) -> bytes:
    """Pickles the result of `fn`.

    Raises:
        InvalidArgumentError: If it cannot be pickled.
    """
    try:
        return _dumps(value)
    except Exception as error:
        raise errors.InvalidArgumentError(
            f"what {name_of(fn)} returned cannot be sent back, {_described(value)}: {error}"
        ) from error


def dump_exception(error: BaseException) -> bytes | None:
    """Pickles an exception; returns None if it cannot be pickled."""
    try:
        return _dumps(error)
    except Exception:
        return None


def load_exception(pickled: bytes | None) -> BaseException | None:
    """Loads what `dump_exception` has made; returns None if this process cannot."""
    try:
        error = None if pickled is None else pickle.loads(pickled)
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None


def _dumps(value: Any) -> bytes:
    # Imported by the first launch, not by everybody who imports this module.
    import cloudpickle

    class Pickler(cloudpickle.CloudPickler):
        def reducer_override(self, obj: Any) -> Any:
            made = wrapping.reduced(obj)
            return super().reducer_override(obj) if made is NotImplemented else made

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()


def name_of(fn: Any) -> str:
    return str(getattr(fn, "__qualname__", None) or type(fn).__qualname__)


def _has_no_file(entry: Any) -> bool:
    """Whether an entry of linecache is source without a file: it has no modification time."""
    return len(entry) == 4 and entry[1] is None


def _culprits(fn: Any) -> str:
    """Which of the variables that `fn` uses cannot be pickled, and why."""
    try:
        used = inspect.getclosurevars(fn)
    except TypeError:
        return ""
    reasons = []
    for name, value in {**used.globals, **used.nonlocals}.items():
        try:
            _dumps(value)
        except Exception as error:
            reasons.append(f"it uses '{name}', {_described(value)}: {error}")
    return "; ".join(reasons)


def _described(value: Any) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}"
