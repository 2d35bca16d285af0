"""What a step has computed that was only tried."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf.upstream import generations


@dataclasses.dataclass(frozen=True)
class Moved:
    """A variable that a step has changed.

    Attributes:
        name: For messages.
        before: Its value before the step.
        after: And after it.
    """

    name: str
    before: Any
    after: Any


@dataclasses.dataclass
class Trial:
    """What a step has computed.

    Attributes:
        names: Of the variables of which an optimizer got gradients, in its order.
        given: Those gradients: tensors, `tf.IndexedSlices`, or None where there is none.
        why_not: Why it cannot be compared with the step of one process; empty if it can.
        variables: By what tells them apart, those that the step has changed.
        metrics: By name, those of the step's samples.
        results: The numbers that the step returns.
    """

    names: list[str] = dataclasses.field(default_factory=list)
    given: list[Any] = dataclasses.field(default_factory=list)
    why_not: str = ""
    variables: dict[Any, Moved] = dataclasses.field(default_factory=dict)
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    results: list[Any] = dataclasses.field(default_factory=list)

    @property
    def gradients(self) -> list[tuple[str, Any]]:
        """With their variables' names, as dense arrays."""
        return [
            (name, None if one is None else np.asarray(tf.convert_to_tensor(one)))
            for name, one in zip(self.names, self.given, strict=True)
        ]


class Noting:
    """Is told the gradients of a step, as `context.Surroundings.note_gradients`.

    Args:
        replacements: The gradients to go on with, in the order of the step. None: its own.

    Attributes:
        trial: To which they are added.
        trained: The variables, as TensorFlow's.
    """

    def __init__(self, replacements: Sequence[Any] | None = None) -> None:
        self.trial = Trial()
        self.trained: list[Any] = []
        self._replacements = replacements

    def __call__(
        self, variables: Sequence[Any], gradients: Sequence[Any], why_not: str
    ) -> Sequence[Any]:
        begin = len(self.trial.given)
        self.trial.names.extend(_label_of(v) for v in variables)
        self.trained.extend(generations.native(v) for v in variables if hasattr(v, "assign"))
        self.trial.given.extend(gradients)
        self.trial.why_not = self.trial.why_not or why_not
        if self._replacements is None:
            return gradients
        return self._replacements[begin : begin + len(gradients)]

    def forget(self) -> None:
        """What was told so far: TensorFlow traces a step twice if it creates variables."""
        self.trial = Trial()
        self.trained = []


def _label_of(variable: Any) -> str:
    is_variable = hasattr(variable, "assign")
    return generations.name_of(variable).split(":")[0] if is_variable else "a tensor"
