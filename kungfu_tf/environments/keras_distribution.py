"""The variables that keras.distribution.initialize reads."""

from __future__ import annotations

from collections.abc import Mapping

from kungfu_tf import errors
from kungfu_tf.environments.placement import Placement, number, split_address

_ID, _SIZE = "KERAS_DISTRIBUTION_PROCESS_ID", "KERAS_DISTRIBUTION_NUM_PROCESSES"
_ADDRESSES = "KERAS_DISTRIBUTION_JOB_ADDRESSES"


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a process with a number of processes, or with their addresses."""
    rank, text = number(environ, _ID), environ.get(_ADDRESSES, "")
    try:
        addresses = [split_address(item.strip()) for item in text.split(",") if item.strip()]
    except ValueError:
        return None
    size = number(environ, _SIZE) or len(addresses)
    if size < 2:
        return None
    if rank is None:
        message = f"Keras' variables tell of {size} processes: set {_ID}, the rank of this one"
        raise errors.FailedPreconditionError(errors.linked("environment-size", message))
    return Placement(
        "Keras",
        (_ID, _SIZE if _SIZE in environ else _ADDRESSES),
        rank,
        size,
        text,
        *(addresses[0] if addresses else ("", 0)),
        own_port=addresses[rank][1] if rank < len(addresses) else 0,
    )
