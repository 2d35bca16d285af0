"""One launched job runs many cases of many modules.

A module `cases_<topic>.py` in cases/ holds functions `case_<what>()`. Each runs on every peer
of a job at the same time, and passes if it raises on none of them; what it observes it asserts,
with plain `assert`, on the peer where it is:

    JOBS = [{"np": 2}, {"np": 4, "env": {"KUNGFU_STRATEGY": "RING"}, "id": "ring"}]

    @each(dtype=["float32", "int8"])
    def case_sum(dtype):
        x = tf.fill([3], tf.cast(kf.rank() + 1, dtype))
        np.testing.assert_array_equal(kf.ops.all_reduce(x), ...)

pytest collects `cases_<topic>.py::<job>::sum[float32]` without importing the module: the arguments
of `each` and `JOBS` are literals, or names of literals of the same module. `-k` selects as usual.

JOBS      for each job: `np`; and where wanted `env`, `flags` of the launcher, `id` (default
          "np<np>"), `cases` (a list of names; default all), `alone`. A value of `env` that is None
          is unset.
TIMEOUT   seconds for one case, default 100. A job that takes longer is ended, and the failure
          shows where each of its peers stood.

NEEDS_KERAS
          False: not collected with TF_USE_LEGACY_KERAS=1, because the same TensorFlow has run it
          with the Keras of its own. Default True.
NEEDS     the name of a package, where there are configurations without it: not collected there.

Modules that ask for the same np, env and flags share one job, one after the other: it starts with
the interpreter and the environment of pytest at the first case, and must end with code 0 after the
last. Its peers find TensorFlow imported (`warm/`). Each module finds Keras as if it were the first,
with float32 and no names taken; one that changes what cannot be changed back, or wants peers that
have imported nothing, says `"alone": True`. A case that fails ends its job, so that it cannot spoil
others; the next one has a fresh job (three times, then the rest of the module fails).

A whole grid belongs to `make test-all`, and what finds its faults to `make test`, too:

    @exhaustive(dtype=["float16", "int32"])  # all but these; @exhaustive(): all

If there are several such lines, `make test` has what one of them leaves to it.

A case that finds nothing to test in this configuration does not just return: it raises Skip("why"),
on all peers, and is counted as skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Skip(Exception):
    """Raised by a case, on all peers: here is nothing to test. The text says why."""


def each(**parameters: Sequence[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a case of every combination of the values."""

    def mark(case: Callable[..., None]) -> Callable[..., None]:
        return case

    return mark


def exhaustive(**unless: Sequence[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Leaves all cases of a function to `make test-all`, but those with only these values."""

    def mark(case: Callable[..., None]) -> Callable[..., None]:
        return case

    return mark
