"""All that a step of a program's own may change, put back after it was tried.

Nobody knows what such a step is made of. So it is all variables of the process, those that the step
creates, and the random numbers to come.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops as variable_ops

from kungfu_tf import peer
from kungfu_tf.ops.any_tensors import gather_any
from kungfu_tf.replicas import randomness
from kungfu_tf.verification.trial import Moved


class Process:
    """Its variables, while a step is tried.

    Within `trying`, what is created is noted. `put_back` restores all.
    """

    def __init__(self) -> None:
        self._before = [(variable, variable.read_value()) for variable in _variables()]

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        """Around a step. Afterwards random numbers are as if nothing had been drawn."""
        states = random.getstate(), np.random.get_state()
        with tf.variable_creator_scope(self._creating), randomness.seeds_put_back():
            try:
                yield
            finally:
                random.setstate(states[0])
                np.random.set_state(states[1])

    def moved(self) -> dict[Any, Moved]:
        """Variables of numbers that are not as before, by their identities."""
        found = {}
        for variable, value in self._before:
            before, after = np.asarray(value), np.asarray(variable.read_value())
            if not np.array_equal(before, after):
                found[id(variable)] = Moved(variable.name.split(":")[0], before, after)
        return found

    def put_back(self) -> None:
        """All have the values of before; new ones those that they were created with."""
        for variable, value in self._before:
            variable.assign(value)

    def from_root(self, variables: Iterable[Any]) -> None:
        """Those of these variables that rank 0 has, too, get its values. Every peer calls it."""
        wanted = {id(v) for v in variables}
        mine = {label: v for label, v in self._labels().items() if id(v) in wanted}
        told = [part for label, v in mine.items() for part in (label, v)] if peer.is_root() else []
        [rows, *_] = gather_any(told, name="verify/moved")
        for label, value in zip(rows[::2], rows[1::2], strict=True):
            variable = mine.get(label.item().decode())
            if variable is not None and variable.shape == value.shape:
                variable.assign(value)

    def label_of(self, key: Any) -> str:
        """What the variable of this identity is called on all peers that create the same."""
        return next((label for label, v in self._labels().items() if id(v) == key), "")

    def key_of(self, label: str) -> Any:
        """The other way round; None: there is none."""
        variable = self._labels().get(label)
        return None if variable is None else id(variable)

    def _labels(self) -> dict[str, Any]:
        """The variables by name, and which of that name it is, in the order of their creation."""
        labels: dict[str, Any] = {}
        count: collections.Counter[str] = collections.Counter()
        for variable in sorted((v for v, _ in self._before), key=_ordinal):
            labels[f"{variable.name} {count[variable.name]}"] = variable
            count[variable.name] += 1
        return labels

    def _creating(self, create: Callable[..., Any], **options: Any) -> Any:
        variable = create(**options)
        if _is_eager(variable):
            self._before.append((variable, variable.read_value()))
        return variable


def _ordinal(variable: Any) -> int:
    """How many things with a number TensorFlow had made before it, in this process."""
    return int(variable._unique_id.rpartition("_")[2])


def _variables() -> list[Any]:
    """Those of eager code that are alive."""
    gc.collect()
    found: dict[int, Any] = {}
    for one in gc.get_objects():
        is_variable = issubclass(type(one), variable_ops.BaseResourceVariable)
        is_read = issubclass(type(one), variable_ops._UnreadVariable)
        if is_variable and not is_read and _is_eager(one) and one.is_initialized():
            found[id(one.handle)] = one
    return list(found.values())


def _is_eager(variable: Any) -> bool:
    return isinstance(getattr(variable, "handle", None), tf.__internal__.EagerTensor)
