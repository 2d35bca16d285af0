"""Combines the variables that layers update themselves, such as moving statistics.

Each peer's layers update them by its own batches. Means are averaged. A variable of unknown meaning
stays each peer's own. Rank 0 warns of it, since it saves its own value.
"""

from __future__ import annotations

import logging
from typing import Any

from kungfu_tf import ops, peer
from kungfu_tf.replicas import average, roles
from kungfu_tf.upstream import generations

_log = logging.getLogger(__name__)

_NAME = "average_statistics"


def average_statistics(model: Any) -> None:
    """Gives all peers one value of each variable that layers update, bitwise the same. Eager."""
    if peer.is_single_process():
        return
    pairs = [(how, layer, v) for how, layer, v in roles.moved(model) if how != "own"]
    if not pairs:
        return
    differ = average.differ([v for _, _, v in pairs], name=f"{_NAME}/digests")
    of_kind: dict[str, list[Any]] = {}
    for (how, layer, variable), is_different in zip(pairs, differ, strict=True):
        if how == "sum" or is_different:  # equal counts must be added up, too
            of_kind.setdefault(how, []).append((layer, variable))
    _average([v for _, v in of_kind.get("mean", [])])
    _add_up([v for _, v in of_kind.get("sum", [])])
    _take_root([v for _, v in of_kind.get("root", [])])
    _warn_of_own(model, of_kind.get("unknown", []))


def begin_sums(model: Any) -> None:
    """Notes the values of sums, which all peers share now: only later additions are added up."""
    for how, _, variable in roles.moved(model):
        if how == "sum":
            variable._kungfu_summed = variable.read_value()


def _average(variables: list[Any]) -> None:
    if variables:
        means = ops.group_all_reduce([v.read_value() for v in variables], op="mean", name=_NAME)
        for variable, mean in zip(variables, means, strict=True):
            variable.assign(mean)


def _add_up(variables: list[Any]) -> None:
    if variables:
        added = [v.read_value() - v._kungfu_summed for v in variables]
        sums = ops.group_all_reduce(added, op="sum", name=f"{_NAME}/sums")
        for variable, total in zip(variables, sums, strict=True):
            variable.assign(variable._kungfu_summed + total)
            variable._kungfu_summed = variable.read_value()


def _take_root(variables: list[Any]) -> None:
    if variables:
        values = ops.group_broadcast([v.read_value() for v in variables], name=f"{_NAME}/roots")
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def _warn_of_own(model: Any, pairs: list[tuple[Any, Any]]) -> None:
    if not pairs or not peer.is_root() or vars(model).get("_kungfu_has_warned_of_own"):
        return
    vars(model)["_kungfu_has_warned_of_own"] = True
    shown = ", ".join(
        f"'{generations.name_of(variable)}' of layer '{layer.name}'" for layer, variable in pairs
    )
    _log.warning(
        "fit: %s: the peers have different values, which are not known to be means. Each peer goes "
        "on with its own, and rank 0's are saved. kungfu_tf.variables.combine(variable, how) says "
        "what they are: 'mean', 'sum', 'root' or 'own'",
        shown,
    )
