"""How the step of all peers differs from that of a single process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from kungfu_tf.keras.verify.trial import Trial

_SUM = (
    "It is {times:.3g} times as large in one process, as that of a sum over samples: a loss of "
    "tf.reduce_sum or with reduction='sum', add_loss of a sum"
)
_LIKELY = (
    "Likely causes: a part of the loss that is a sum over samples, as of add_loss; a loss that is "
    "divided by something else than the number of samples, as by what a mask leaves; one that "
    "compares the samples of a batch with each other; code that depends on the rank; gradients "
    "that are changed before the optimizer gets them"
)


def difference(one: Trial, all_peers: Trial, digits_of: Any) -> str | None:
    """Words what differs first; None if nothing does beyond rounding.

    Args:
        one: Of a single process, with the samples of all.
        all_peers: Of all peers.
        digits_of: The floating dtype that the model computes in.
    """
    names = [name for name, _ in one.gradients]
    if names != [name for name, _ in all_peers.gradients]:
        return "the optimizers get gradients of other variables than in one process"
    pairs = [
        (name, mine, theirs)
        for (name, mine), (_, theirs) in zip(one.gradients, all_peers.gradients, strict=True)
    ]
    lacking = [name for name, mine, theirs in pairs if (mine is None) != (theirs is None)]
    if lacking:
        return f"'{lacking[0]}' has a gradient only on several peers, or only in one process"
    known = [(name, mine, theirs) for name, mine, theirs in pairs if mine is not None]
    allowed = float(ml_dtypes.finfo(digits_of).eps) ** 0.5
    largest = max((_largest(mine) for _, mine, _ in known), default=0.0)
    for name, mine, theirs in known:
        off = _largest(theirs.astype(np.float64) - mine.astype(np.float64))
        if not off <= allowed * (_largest(mine) + largest / 100):
            return (
                f"the gradient of '{name}' is another one than in one process: off by {off:.3g} "
                f"where it goes up to {_largest(mine):.3g}. {_cause(known)}"
            )
    for name, result in one.metrics.items():
        if not np.allclose(all_peers.metrics[name], result, rtol=allowed, atol=allowed / 100):
            return (
                f"metric '{name}' is {all_peers.metrics[name]:.6g}, and {result:.6g} in one "
                "process. Likely causes: a metric whose state does not add up over peers; a loss "
                "that is no mean over samples"
            )
    return None


def _largest(values: Any) -> float:
    return float(np.abs(values.astype(np.float64)).max(initial=0))


def _cause(pairs: Sequence[tuple[str, Any, Any]]) -> str:
    mine, theirs = (
        np.concatenate([np.ravel(pair[i]).astype(np.float64) for pair in pairs]) for i in (1, 2)
    )
    size = np.dot(theirs, theirs)
    times = float(np.dot(mine, theirs) / size) if size else 0.0
    off = np.linalg.norm(mine - times * theirs)
    is_multiple = times > 1.5 and off <= np.linalg.norm(mine) / 100
    return _SUM.format(times=times) if is_multiple else _LIKELY
