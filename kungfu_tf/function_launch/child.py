"""One of the processes that `launch` starts: calls the function and sends back its result."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Iterator, Sequence

from kungfu_tf.function_launch import channel, pickling
from kungfu_tf.function_launch.channel import Failure

_TOLD = "(told by rank "  # of an error that another peer has passed on


def main(arguments: Sequence[str]) -> int:
    """Arguments: the descriptors of the function and of each rank's result."""
    function, *results = map(int, arguments)
    for descriptor in results:
        os.set_inheritable(descriptor, False)
    rank = os.environ["KUNGFU_PEERS"].split(",").index(os.environ["KUNGFU_SELF"])
    return run(function, results[rank], rank)


def run(function: int, result: int, *first: object) -> int:
    """Calls the function. Returns the exit code.

    Args:
        function: The descriptor of the function.
        result: The descriptor for its result.
        first: The first arguments of the function.
    """
    for descriptor in (function, result):
        os.set_inheritable(descriptor, False)
    peers, own = os.environ["KUNGFU_PEERS"].split(","), os.environ["KUNGFU_SELF"]
    others = [peer for peer in peers if peer != own]
    try:
        record = channel.read(function)
        assert record is not None
        fn, args, kwargs = pickling.load_call(record)
        value = pickling.dump_result(fn(*first, *args, **kwargs), fn)
    except BaseException as error:
        channel.write(result, channel.RAISED, pickle.dumps(tuple(failure_of(error, others))))
        return 1
    channel.write(result, channel.RETURNED, value)
    return 0


def failure_of(error: BaseException, others: Sequence[str]) -> Failure:
    """What the caller learns of an error of the function.

    Args:
        error: The error.
        others: The addresses of the other peers.
    """
    inside = error.__traceback__  # the outer frames are ours
    while inside is not None and inside.tb_frame.f_globals.get("__package__") == __package__:
        inside = inside.tb_next
    lines = traceback.format_exception(type(error), error, inside)
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    return Failure(summary, "".join(lines), pickling.dump_exception(error), _tells(error, others))


def _tells(error: BaseException, others: Sequence[str]) -> bool:
    """Whether an error, or one behind it, names another peer, as all errors of collectives do."""
    names = [f"({peer})" for peer in others] + [_TOLD]
    return any(name in str(one) for one in _chain(error) for name in names)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it was raised from or after."""
    known: set[int] = set()
    ahead: list[BaseException | None] = [error]
    while ahead:
        one = ahead.pop()
        if one is None or id(one) in known:
            continue
        yield one
        known.add(id(one))
        ahead += [one.__cause__, one.__context__]
