"""The variables that keras.distribution.initialize reads."""

from __future__ import annotations

from collections.abc import Mapping

from kungfu_tf.environments.placement import Placement, number, split_address


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a process with KERAS_DISTRIBUTION_PROCESS_ID and a number of processes."""
    rank = number(environ, "KERAS_DISTRIBUTION_PROCESS_ID")
    text = environ.get("KERAS_DISTRIBUTION_JOB_ADDRESSES", "")
    try:
        addresses = [split_address(item.strip()) for item in text.split(",") if item.strip()]
    except ValueError:
        return None
    size = number(environ, "KERAS_DISTRIBUTION_NUM_PROCESSES") or len(addresses)
    if rank is None or not size:
        return None
    return Placement(
        "Keras",
        ("KERAS_DISTRIBUTION_PROCESS_ID", "KERAS_DISTRIBUTION_NUM_PROCESSES"),
        rank,
        size,
        text,
        *(addresses[0] if addresses else ("", 0)),
        own_port=addresses[rank][1] if rank < len(addresses) else 0,
    )
