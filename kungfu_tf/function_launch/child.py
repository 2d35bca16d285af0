"""One of the processes that `launch` starts: calls the function and sends back its result."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Sequence

from kungfu_tf.function_launch import channel, pickling
from kungfu_tf.function_launch.channel import Failure


def main(arguments: Sequence[str]) -> int:
    """Arguments: the descriptors of the function and of each rank's result."""
    function, *results = map(int, arguments)
    for descriptor in (function, *results):
        os.set_inheritable(descriptor, False)
    rank = os.environ["KUNGFU_PEERS"].split(",").index(os.environ["KUNGFU_SELF"])
    try:
        record = channel.read(function)
        assert record is not None
        fn = pickling.load_function(record)
        value = pickling.dump_result(fn(rank), fn)
    except BaseException as error:
        failure = _failure(error)
        channel.write(results[rank], channel.RAISED, pickle.dumps(tuple(failure)))
        return 1
    channel.write(results[rank], channel.RETURNED, value)
    return 0


def _failure(error: BaseException) -> Failure:
    inside = error.__traceback__ and error.__traceback__.tb_next  # the outer frame is ours
    lines = traceback.format_exception(type(error), error, inside)
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    return Failure(summary, "".join(lines), pickling.dump_exception(error))
