"""The arguments and options that must be the same on all peers before `fit` begins."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import context, errors, ops, peer
from kungfu_tf.context import ordinals
from kungfu_tf.exchange.codec import refuse_different
from kungfu_tf.membership import failing_together
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.plain_message import plain_message


def check(
    model: Any,
    arguments: Mapping[str, Any],
    *,
    check_every: Any,
    policies: Any,
    may_stop_early: bool,
) -> bool:
    """Compares everything that decides how often the peers meet in `fit`.

    Args:
        model: The model that is trained.
        arguments: The arguments of `fit`, by name.
        check_every: The argument of this peer's `BroadcastGlobalVariablesCallback`.
        policies: The kinds of this peer's policies; None if it has no `PolicyCallback`.
        may_stop_early: Whether this peer's training may stop after any batch.

    Returns:
        Whether the training of any peer may stop after any batch.

    Raises:
        ValueError: On every peer, if the arguments differ. It names argument, values and ranks.
        tf.errors.InvalidArgumentError: On every peer, if their codecs differ. It names them.
    """
    mine = {**_meetings(arguments), **_options(model)}
    mine.update(check_every=check_every, policies=policies)
    algorithms = generations.algorithms_of_model(model)
    mine["optimizer"] = " and ".join(type(algorithm).__name__ for algorithm in algorithms) or None
    every = [a.schedule.every for a in algorithms if a.schedule is not None]
    mine["every"] = every[0] if len(every) == 1 else tuple(every) or None
    codecs = [repr(a.compression) for a in algorithms if a.compression is not None]
    mine["compression"] = " and ".join(codecs) or None
    places = _code(tuple(vars(algorithm).get("ordinal") for algorithm in algorithms))
    used = ordinals.of_algorithms(context.current().group)
    more = [may_stop_early, used.next, places]
    codes = np.array([*map(_code, mine.values()), *more], np.int64)
    try:
        gathered = failing_together.enter_new_epoch(
            lambda: ops.all_gather(codes, name="fit/arguments").numpy()
        )
    except (tf.errors.UnavailableError, tf.errors.DeadlineExceededError) as error:
        message = f"not all peers call fit, as all must: {plain_message(error)}"
        raise type(error)(None, None, errors.linked("fit-not-called", message)) from None
    for i, argument in enumerate(mine):
        column = gathered[:, i]
        if np.any(column != column[0]):
            if argument == "compression":
                refuse_different(str(mine[argument]), name="fit")
            raise ValueError(_difference(argument, column, mine[argument]))
    stops, next_ordinals, named = gathered[:, len(mine) :].T
    used.next = int(next_ordinals.max())
    if np.any(named != named[0]):
        for algorithm in algorithms:
            vars(algorithm).pop("ordinal", None)
        model.train_function = None
    return bool(stops.any())


def from_root(values: Sequence[int]) -> list[int]:
    """Rank 0's integers, on every peer."""
    return [int(v) for v in ops.broadcast(np.array(values, np.int64), name="fit/from_root").numpy()]


def gather_ints(values: Sequence[int]) -> list[int]:
    """The integers of all peers, in rank order. Peers may give different numbers of them."""
    mine = np.array(values, np.int64)
    return [int(v) for v in ops.all_gather(mine, concat=True, name="fit/gather_ints").numpy()]


def all_agree(yes: bool) -> bool:
    """Whether every peer says yes."""
    return bool(ops.all_reduce(np.uint8(yes), op="min", name="fit/all_agree"))


def _options(model: Any) -> dict[str, Any]:
    """The options of `compile` that must be the same."""
    return {
        "steps_per_execution": generations.steps_per_execution(model),
        "run_eagerly": bool(model.run_eagerly),
    }


def _meetings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    validates = arguments["validation_data"] is not None or bool(arguments["validation_split"])
    return {
        "epochs": arguments["epochs"],
        "initial_epoch": arguments["initial_epoch"],
        "steps_per_epoch": arguments["steps_per_epoch"],
        "validation": validates,
        "validation_freq": arguments["validation_freq"] if validates else None,
    }


def _code(value: Any) -> int:
    """A number below 2^31 for itself, None for -1, anything else for its digest."""
    if value is None:
        return -1
    if isinstance(value, (bool, int, np.integer)):
        return int(value)
    return (1 << 31) + zlib.crc32(repr(value).encode())


def _difference(argument: str, codes: Any, mine: Any) -> str:
    def shown(code: int) -> str:
        if argument == "validation":
            return "given" if code else "not given"
        if code == _code(mine):
            return str(mine)
        return "None" if code == -1 else str(code) if code < 1 << 31 else "something else"

    ranks_of: dict[str, list[int]] = {}
    for rank, code in enumerate(codes.tolist()):
        ranks_of.setdefault(shown(code), []).append(rank)
    name = _SHOWN.get(argument, argument)
    found = "; ".join(f"{value} on {peer.names_of(ranks)}" for value, ranks in ranks_of.items())
    return (
        f"fit: {name} must be the same on all peers, and is {found} (here, on rank "
        f"{peer.rank()}: {mine!r}). Peers that train, validate, compare or measure more often than "
        "others would wait"
    )


_SHOWN = {
    "validation": "validation_data or validation_split",
    "policies": "the list of policies",
    "optimizer": "the distributed method of the optimizer",
    "every": "every, the steps from one meeting to the next",
}
