"""What bytes objects become, and which bytes are none."""

from __future__ import annotations

import numpy as np
import pytest

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.replicas import encoding


def test_bytes_that_are_no_object() -> None:
    whole = encoding.encode({"a": [1, 2.5, None]})
    assert encoding.decode(whole) == {"a": [1, 2.5, None]}
    for end in range(len(whole)):
        with pytest.raises(errors.InvalidArgumentError, match="not an encoded object"):
            encoding.decode(whole[:end])
    with pytest.raises(errors.InvalidArgumentError, match="2 bytes behind an encoded object"):
        encoding.decode(whole + b"NN")
    with pytest.raises(errors.InvalidArgumentError, match="not an encoded object"):
        encoding.decode(b"?" + whole[1:])


@pytest.mark.parametrize("name", [">f4", ">i8", "<u2", ">c16", "?"])
def test_bytes_of_an_array_in_another_order(name: str) -> None:
    array = np.array([[1, 0], [2, 3]]).astype(name)
    found = encoding.decode(encoding.encode([array, array[1, 1]]))
    assert found[0].dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found[0], array)
    assert found[1] == array[1, 1]


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1},
        [range(3)],
        {"key": (1, print)},
        np.ma.masked_array([1, 2], mask=[True, False]),
        np.zeros(2, [("x", np.int32), ("y", np.float32)]),
        np.zeros(1, "V3")[0],
        np.zeros(2, (np.record, [("x", "i4")])),
        np.zeros(2, (np.record, [("x", "i4")]))[0],
        np.array([None]),
        np.array("text"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_only_a_pickle_can_hold(value: object) -> None:
    with pytest.raises(errors.UnsupportedTypeError, match="pickle=True"):
        encoding.encode(value)


class Number(int):
    """Would come back as an int."""


def test_a_subclass_is_not_taken_for_its_base() -> None:
    with pytest.raises(errors.UnsupportedTypeError, match="Number"):
        encoding.encode([Number(3)])


def test_a_job_without_a_secret_sends_no_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUNGFU_INSECURE", "1")
    with pytest.raises(errors.FailedPreconditionError, match="no secret"):
        kf.broadcast_object([1], pickle=True)
    with pytest.raises(errors.FailedPreconditionError, match="no secret"):
        kf.all_gather_object([1], pickle=True)
    assert kf.broadcast_object([1]) == [1]
