"""errors: one tree, as its module draws it, with TensorFlow's codes."""

from __future__ import annotations

import inspect

import pytest
import tensorflow as tf

from kungfu_tf import errors

CLASSES = [getattr(errors, name) for name in errors.__all__]


def test_the_drawing_is_the_tree() -> None:
    drawn: dict[str, int] = {}
    for line in inspect.getdoc(errors).splitlines():
        word = line.split()[0] if line.split() else ""
        if word.endswith("Error"):
            drawn[word] = len(line) - len(line.lstrip())
    tree = {cls.__name__: 4 + 2 * (cls.__mro__.index(errors.KungfuError)) for cls in CLASSES}
    assert drawn == tree


@pytest.mark.parametrize("error", CLASSES)
def test_codes_are_tensorflows(error: type[errors.KungfuError]) -> None:
    assert error.__doc__
    same = getattr(tf.errors, error.__name__, None)
    if same is not None:
        assert same(None, None, "text").error_code == error.code


def test_from_code() -> None:
    error = errors.from_code(14, "rank 2 is gone")
    assert type(error) is errors.UnavailableError
    assert str(error) == "rank 2 is gone"
    unnamed = errors.from_code(6, "address in use")
    assert type(unnamed) is errors.KungfuError
    assert unnamed.code == 6


def test_types_that_python_programs_catch() -> None:
    assert issubclass(errors.InvalidArgumentError, ValueError)
    assert issubclass(errors.UnsupportedTypeError, TypeError)
