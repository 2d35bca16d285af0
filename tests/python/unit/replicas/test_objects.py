"""What bytes objects become, and which bytes are none."""

from __future__ import annotations

import pytest

import kungfu_tf as kf
from kungfu_tf import errors, peer
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


@pytest.mark.parametrize("value", [object(), {1}, [range(3)], {"key": (1, print)}])
def test_what_only_a_pickle_can_hold(value: object) -> None:
    with pytest.raises(errors.UnsupportedTypeError, match="pickle=True"):
        encoding.encode(value)


class Number(int):
    """Would come back as an int."""


def test_a_subclass_is_not_taken_for_its_base() -> None:
    with pytest.raises(errors.UnsupportedTypeError, match="Number"):
        encoding.encode([Number(3)])


def test_a_job_without_a_secret_sends_no_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "launched", lambda: True)
    monkeypatch.delenv("KUNGFU_SECRET", raising=False)
    with pytest.raises(errors.FailedPreconditionError, match="no secret"):
        kf.broadcast_object([1], pickle=True)
