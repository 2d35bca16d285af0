"""What the running code is part of, as one immutable object in one context variable."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kungfu_tf.context.running_fit import ElasticRun, RunningFit


@dataclasses.dataclass(frozen=True, eq=False)
class Surroundings:
    """What the running code is part of. Outside of everything each field has its default.

    Attributes:
        fit: The innermost `fit` that runs. None outside, and in the program's own work within it.
        elastic_run: The elastic training that the next `fit` is a part of.
        weight: This peer's weight in the step, a float64 scalar (`sample_weights`); None if the
            step counts no samples, and peers count alike.
        samples: How many samples this peer has in the step, a float64 scalar; None: not counted.
        is_in_step: Whether an optimizer takes a step (`exchange/whole_step.py`).
        scale: The loss scale in the gradients, a scalar.
        is_private: Whether this peer works without the others, as in an evaluation.
        is_alone: Whether this peer works for a while as a process without others: operations
            return what they would return there, and exchange nothing.
        counts_peers: Whether rank and size are those of the job even while `is_alone`.
        is_rehearsal: Whether a step is only traced, to create its variables.
        members: A number for the variables of an update, which must be the same on all peers; 0
            outside of an update.
        note_gradients: Called in each update with its variables, the gradients that the optimizer
            gets, and why its result is not that of one process, or nothing. Returns the gradients
            to use. None: not called.
        is_verified: Whether somebody else compares what is exchanged here (`verification`).
        restored: Values by name that sessions start from in place of a checkpoint; None: sessions
            start as usual.
        group: The group of peers (`kungfu_tf.Group`) whose operations are called here, and whose
            ranks count; None: all peers.
        estimator_run: The call of an Estimator's `train` whose data get one length on all peers.
    """

    fit: RunningFit | None = None
    elastic_run: ElasticRun | None = None
    weight: Any = None
    samples: Any = None
    is_in_step: bool = False
    scale: Any = 1.0
    is_private: bool = False
    is_alone: bool = False
    counts_peers: bool = False
    is_rehearsal: bool = False
    members: int = 0
    note_gradients: Callable[[Sequence[Any], Sequence[Any], str], Sequence[Any]] | None = None
    is_verified: bool = False
    restored: Mapping[str, Any] | None = None
    estimator_run: Any = None
    group: Any = None


_OUTSIDE = Surroundings()
_current: contextvars.ContextVar[Surroundings] = contextvars.ContextVar(
    "kungfu_tf", default=_OUTSIDE
)


def current() -> Surroundings:
    """What the calling code is part of."""
    return _current.get()


@contextlib.contextmanager
def within(**changes: Any) -> Iterator[None]:
    """Within it these fields of `Surroundings` have other values.

    Example:

    ```python
    with context.within(weight=None):
        assert context.current().weight is None
    ```
    """
    token = _current.set(dataclasses.replace(_current.get(), **changes))
    try:
        yield
    finally:
        _current.reset(token)
