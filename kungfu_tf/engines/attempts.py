"""A job that is started anew after a failure, to go on from a checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kungfu_tf import errors
from kungfu_tf.engines.orders import Order
from kungfu_tf.function_launch import results
from kungfu_tf.function_launch.results import Child


def run(attempt: Callable[[Order], list[Child]], order: Order, restarts: int) -> list[Any]:
    """The results of the first attempt that ends well, by rank.

    Args:
        attempt: Runs a job once.
        order: The job.
        restarts: How often it may be started anew.

    Raises:
        KungfuError: If the last attempt fails, or one for another reason than a failed process.
    """
    for number in range(restarts + 1):
        try:
            ended = attempt(order.again(number))
        except errors.PeerFailedError as error:
            if number == restarts:
                raise
            said = f"{error}\nstarting all anew, {number + 1} of at most {restarts} times"
            print(f"kungfu_tf: {said}", file=sys.stderr, flush=True)
        else:
            break
    return [results.value_of(child) for child in sorted(ended, key=lambda child: child.rank)]
