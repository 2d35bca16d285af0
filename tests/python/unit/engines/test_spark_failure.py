"""The error of a peer, within the message of Spark about its task."""

from __future__ import annotations

from kungfu_tf.engines import spark_failure


def test_any_text_comes_back_whole() -> None:
    text = "rank 1 on a: SQLSTATE\n\n at me\nZeroDivisionError: on purpose"
    sent = str(spark_failure.packed(spark_failure.error_of(1, "a", text)))
    error = spark_failure.unpacked(f"Job aborted: PeerFailedError: {sent}\n\n\tat java.lang")
    assert error is not None
    assert (str(error), error.rank, error.host) == (text, 1, "a")


def test_other_messages_have_none() -> None:
    assert spark_failure.unpacked("rank 1 on a: lost") is None
