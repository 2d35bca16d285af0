"""A plain `fit` in a job whose peers come and go (`kungfu-run -w`), as far as it can take them in.

Of data that `data.shard` has dealt out it is known which samples are done, whoever had them. So
`fit` of such data is `elastic.fit`. Data that the program itself has divided were divided among
the peers of that moment: what is a newcomer's share, and who has those samples now, nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kungfu_tf import peer
from kungfu_tf.data.dealt import dealt_of, has_position
from kungfu_tf.keras.fit.call import Fit
from kungfu_tf.upstream import generations

# An epoch of theirs is no pass through all data.
_OF_OTHER_EPOCHS = ("steps_per_epoch", "validation_split")

_elastic_fit: Callable[..., Any] | None = None


def register(elastic_fit: Callable[..., Any]) -> None:
    """Registers what trains while peers come and go."""
    global _elastic_fit
    _elastic_fit = elastic_fit


def may_come(call: Fit, arguments: Mapping[str, Any]) -> bool:
    """Whether peers may come and go in this call of `fit`, which is not a part of a training yet.

    Args:
        call: The call.
        arguments: The arguments of Keras' method, by name.
    """
    may_change = call.is_shared and call.elastic_run is None and peer.elastic()
    return may_change and why_not(call, arguments) is None


def why_not(call: Fit, arguments: Mapping[str, Any]) -> str | None:
    """Why this call cannot take in newcomers, in a job whose peers come and go; None: it can."""
    if (group := generations.group_of_model(call.model)) is not None:
        return f"its optimizer is that of {group}, which ends when the peers change"
    if any(algorithm.is_sharded for algorithm in generations.algorithms_of_model(call.model)):
        return "its optimizer's slots are dealt to peers that stay"
    for name in _OF_OTHER_EPOCHS:
        if arguments[name]:
            return f"{name} is given, so an epoch is no pass through all data"
    if not has_position(call.x):
        return (
            "of data that the program itself has divided nobody knows its share. Deal the data by "
            "kungfu_tf.data.shard, or train with kungfu_tf.elastic.fit(model, ...)"
        )
    try:
        dealt_of(call.x)
    except ValueError as error:  # changed afterwards, so that the samples of a step are unknown
        return str(error)
    return None


def train(model: Any, arguments: Mapping[str, Any]) -> Any:
    """Trains the model while peers come and go. The arguments are those of Keras' method."""
    assert _elastic_fit is not None, "kungfu_tf/__init__.py registers it"
    given = {name: value for name, value in arguments.items() if name != "self"}
    x = given.pop("x")
    return _elastic_fit(model, x, **given)
