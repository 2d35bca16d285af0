"""How the step of all peers differs from that of a single process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

from kungfu_tf.verification.trial import Moved, Trial

_MUCH = 0.02

_SUM = (
    "It is {times:.3g} times as large in one process, as that of a sum over samples: a loss of "
    "tf.reduce_sum or with reduction='sum', add_loss of a sum. It may also be divided by what "
    "a mask leaves"
)
_TOO_LARGE = (
    "It is {times:.3g} times as large as in one process, as that of a sum over the peers where "
    "their mean is meant"
)
_LIKELY = (
    "Likely causes: a part of the loss that is a sum over samples, as of add_loss; a loss that is "
    "divided by something else than the number of samples, as by what a mask leaves; one that "
    "compares the samples of a batch with each other; code that depends on the rank; gradients "
    "that are changed before the optimizer gets them"
)
_AFTER = (
    "Likely causes: an update that is applied twice; code that depends on the rank or on the "
    "number of peers; gradients that are changed after they were exchanged"
)
_BY_HAND = (
    "Likely causes: gradients that are added up over the peers, by kungfu_tf.ops, where their mean "
    "is meant; gradients that are not exchanged; a loss that is no mean over samples"
)
_SIZES = (
    "; batches of different sizes ({sizes}), of which kungfu_tf.DistributedGradientTape is not "
    "told the samples"
)


def digits(layers: Iterable[Any], arrays: Iterable[Any]) -> Any:
    """The floating dtype of the fewest digits in which these layers compute, or of these arrays."""
    names = {getattr(layer, "compute_dtype", None) for layer in layers}
    dtypes = {tf.as_dtype(name) for name in names if name}
    dtypes |= {tf.as_dtype(array.dtype) for array in arrays if array is not None}
    floating = [dtype for dtype in dtypes if dtype.is_floating] or [tf.float32]
    return min(floating, key=lambda dtype: (dtype.size, dtype.name)).as_numpy_dtype


def difference(
    one: Trial, all_peers: Trial, digits_of: Any, samples: Sequence[int] = ()
) -> str | None:
    """Words which gradient or metric differs first; None if none does beyond rounding.

    Args:
        one: Of a single process, with the samples of all.
        all_peers: Of all peers.
        digits_of: The floating dtype that is computed in.
        samples: How many samples each peer has.
    """
    if one.names != all_peers.names:
        return (
            f"the optimizers get {len(all_peers.names)} gradients, and {len(one.names)} in one "
            "process, or gradients of other variables"
        )
    pairs = [
        (name, mine, theirs)
        for (name, mine), (_, theirs) in zip(one.gradients, all_peers.gradients, strict=True)
    ]
    lacking = [name for name, mine, theirs in pairs if (mine is None) != (theirs is None)]
    if lacking:
        return f"'{lacking[0]}' has a gradient only on several peers, or only in one process"
    known = [(name, mine, theirs) for name, mine, theirs in pairs if mine is not None]
    allowed = _allowed(digits_of)
    largest = max((_largest(mine) for _, mine, _ in known), default=0.0)
    for name, mine, theirs in known:
        off = _largest(_wide(theirs) - _wide(mine))
        if not off <= allowed * (_largest(mine) + largest / 100):
            return (
                f"the gradient of '{name}' is another one than in one process: off by {off:.3g} "
                f"where it goes up to {_largest(mine):.3g}. {_cause(known, samples)}"
            )
    for name, result in one.metrics.items():
        if not np.allclose(all_peers.metrics[name], result, rtol=allowed, atol=allowed / 100):
            return (
                f"metric '{name}' is {all_peers.metrics[name]:.6g}, and {result:.6g} in one "
                "process. Likely causes: a metric whose state does not add up over peers; a loss "
                "that is no mean over samples"
            )
    return None


def moved_otherwise(
    expected: Mapping[Any, Moved], found: Mapping[Any, Moved], digits_of: Any
) -> list[Any]:
    """The keys of the variables that have another value after the step than the expected one.

    Args:
        expected: The variables of one process.
        found: Those of all peers.
        digits_of: The floating dtype that is computed in. None: their gradients may differ, too.
    """
    allowed = _MUCH if digits_of is None else _allowed(digits_of)
    return [key for key, one, other in _both(expected, found) if not _is_same(one, other, allowed)]


def counted_otherwise(expected: Mapping[Any, Moved], found: Mapping[Any, Moved]) -> list[Any]:
    """The keys of the counters, as an optimizer's of its steps, that have another value."""
    return [
        key
        for key, one, other in _both(expected, found)
        if not one.after.ndim and np.issubdtype(one.after.dtype, np.integer)
        if one.after != other.after
    ]


def worded(expected: Moved | None, found: Moved | None, *, knows_gradients: bool) -> str:
    """Says how these values of a variable differ.

    Args:
        expected: That of one process.
        found: That of all peers.
        knows_gradients: Whether the gradients were compared, and are right.
    """
    known = expected or found
    assert known is not None
    one, other = _after(expected, known), _after(found, known)
    causes = _AFTER if knows_gradients else _BY_HAND
    return (
        f"'{known.name}' has another value after the step than in one process: off by "
        f"{_largest(_wide(other) - _wide(one)):.3g}, where it moved by "
        f"{_largest(_wide(one) - _wide(known.before)):.3g}. {causes}"
    )


def strays(
    expected: Mapping[Any, Moved], found: Mapping[Any, Moved], wrong: Iterable[Any], right: Any
) -> bool:
    """Whether the variables that differ do so by much of the way that all have gone.

    An optimizer may make any gradient large that is nothing but rounding.

    Args:
        expected: The variables of one process.
        found: Those of all peers.
        wrong: The keys of what differs.
        right: Those of what does not.
    """
    pairs = {key: (one, other) for key, one, other in _both(expected, found)}
    off = [_norm(one.after, other.after) for one, other in map(pairs.__getitem__, wrong)]
    way = [_norm(pairs[key][0].after, pairs[key][0].before) for key in [*wrong, *right]]
    return bool(np.linalg.norm(off) > _MUCH * np.linalg.norm(way))


def is_made_of(total: Any, parts: Sequence[Any], shares: Sequence[float], digits_of: Any) -> bool:
    """Whether numbers of the peers make up that of one process: their mean or their sum.

    Args:
        total: Of one process.
        parts: Of each peer; without elements where it has none.
        shares: Which part of the samples each has.
        digits_of: The floating dtype that is computed in.
    """
    wide = [_wide(part) if np.size(part) else np.zeros(np.shape(total)) for part in parts]
    if any(part.shape != np.shape(total) for part in wide):
        return False
    weighed = sum(share * part for share, part in zip(shares, wide, strict=True))
    return is_one_of(total, [weighed, sum(wide), np.mean(wide, axis=0)], digits_of)


def is_one_of(total: Any, candidates: Sequence[Any], digits_of: Any) -> bool:
    """Whether it is one of these arrays of its shape, but for rounding."""
    allowed = _allowed(digits_of) * _largest(total)
    return any(_largest(_wide(one) - _wide(total)) <= allowed for one in candidates)


def _both(
    one: Mapping[Any, Moved], other: Mapping[Any, Moved]
) -> Iterator[tuple[Any, Moved, Moved]]:
    """What either has moved; what the other has not is as before there."""
    for key in {**one, **other}:
        mine, theirs = one.get(key), other.get(key)
        known = mine or theirs
        assert known is not None
        still = Moved(known.name, known.before, known.before)
        yield key, mine or still, theirs or still


def _after(moved: Moved | None, known: Moved) -> Any:
    return known.before if moved is None else moved.after


def _is_same(one: Moved, other: Moved, allowed: float) -> bool:
    if not np.issubdtype(one.after.dtype, np.number) and one.after.dtype != ml_dtypes.bfloat16:
        return bool(np.array_equal(one.after, other.after))
    if one.after.tobytes() == other.after.tobytes():
        return True
    off = _largest(_wide(one.after) - _wide(other.after))
    way = _largest(_wide(one.after) - _wide(one.before))
    try:
        eps = float(ml_dtypes.finfo(one.after.dtype).eps)
    except ValueError:
        eps = 0.0
    return off <= allowed * way + 4 * eps * _largest(_wide(one.before))


def _norm(one: Any, other: Any) -> float:
    return float(np.linalg.norm(_wide(one) - _wide(other)))


def _allowed(digits_of: Any) -> float:
    return float(ml_dtypes.finfo(digits_of).eps) ** 0.5


def _wide(values: Any) -> Any:
    values = np.asarray(values)
    return values.astype(np.complex128 if np.iscomplexobj(values) else np.float64)


def _largest(values: Any) -> float:
    return float(np.abs(_wide(values)).max(initial=0))


def _cause(pairs: Sequence[tuple[str, Any, Any]], samples: Sequence[int]) -> str:
    mine, theirs = (np.concatenate([np.ravel(_wide(pair[i])) for pair in pairs]) for i in (1, 2))
    size = np.vdot(theirs, theirs).real
    times = float(np.vdot(theirs, mine).real / size) if size else 0.0
    is_multiple = np.linalg.norm(mine - times * theirs) <= np.linalg.norm(mine) / 100
    if is_multiple and times > 1.5:
        return _SUM.format(times=times)
    if is_multiple and 0 < times < 1 / 1.5:
        return _TOO_LARGE.format(times=1 / times)
    sizes = _SIZES.format(sizes=", ".join(map(str, samples))) if len(set(samples)) > 1 else ""
    return _LIKELY + sizes
