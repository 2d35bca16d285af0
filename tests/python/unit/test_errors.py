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


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (1, errors.CancelledError),
        (3, errors.InvalidArgumentError),
        (4, errors.DeadlineExceededError),
        (7, errors.PermissionDeniedError),
        (8, errors.ResourceExhaustedError),
        (9, errors.FailedPreconditionError),
        (10, errors.AbortedError),
        (12, errors.UnimplementedError),
        (13, errors.InternalError),
        (14, errors.UnavailableError),
        (6, errors.KungfuError),  # has no class of its own
    ],
)
def test_from_code(code: int, error: type[errors.KungfuError]) -> None:
    made = errors.from_code(code, "rank 2 is gone")
    assert type(made) is error
    assert str(made) == "rank 2 is gone"
    assert made.code == code


def test_a_message_leads_to_its_row_of_the_documentation() -> None:
    assert errors.linked("slots", "too many") == "too many (kungfu_tf docs: messages#slots)"


def test_types_that_python_programs_catch() -> None:
    assert issubclass(errors.InvalidArgumentError, ValueError)
    assert issubclass(errors.UnsupportedTypeError, TypeError)
