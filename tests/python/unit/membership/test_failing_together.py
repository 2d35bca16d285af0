"""What the other peers are told of an error, and what becomes of a Ctrl-C."""

from __future__ import annotations

import pytest
import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.membership import failing_together


def told(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> str:
    reasons: list[str] = []
    monkeypatch.setattr("kungfu_tf.peer.interrupt", lambda code, reason: reasons.append(reason))
    monkeypatch.setattr("kungfu_tf.peer.begin_epoch", lambda: None)
    with pytest.raises(type(error)), failing_together.together():
        raise error
    [reason] = reasons
    return reason


def failing(dataset: tf.data.Dataset) -> BaseException:
    try:
        for _ in dataset:
            pass
    except tf.errors.OpError as error:
        return error
    raise AssertionError("nothing was raised")


def test_an_error_of_a_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    def generator():
        yield 1
        raise ValueError("bad sample 3")

    dataset = tf.data.Dataset.from_generator(
        generator, output_signature=tf.TensorSpec([], tf.int32)
    )
    reason = told(monkeypatch, failing(dataset))
    expected = "fit was left by InvalidArgumentError: ValueError: bad sample 3"
    assert reason == errors.linked("fit-left", expected)


def test_an_error_in_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    @tf.function
    def step(x):
        tf.debugging.assert_positive(x, "no space left")
        return x

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        step(tf.constant(-1.0))
    reason = told(monkeypatch, caught.value)
    assert "no space left" in reason
    assert "File" not in reason
    assert "[Op:" not in reason


def test_a_long_message_keeps_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = told(monkeypatch, OSError("disk full" + 1000 * "."))
    assert reason.startswith("fit was left by OSError: disk full")
    assert len(reason) < 400


def test_an_interrupt_that_comes_with_an_error_of_tensorflow() -> None:
    text = (
        "pybind11::error_already_set: MISMATCH of original and normalized active exception types: "
        "ORIGINAL AbortedError REPLACED BY KeyboardInterrupt: "
    )
    with pytest.raises(KeyboardInterrupt), failing_together.together():
        raise RuntimeError(text)
