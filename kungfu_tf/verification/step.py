"""A step that is verified: taken by one process, then by all peers, and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from kungfu_tf import peer
from kungfu_tf.ops.any_tensors import gather_any
from kungfu_tf.upstream.plain_message import plain_message
from kungfu_tf.verification import comparison
from kungfu_tf.verification.account import Account, of_root
from kungfu_tf.verification.batches import Joint
from kungfu_tf.verification.trial import Moved, Trial


class Trials(Protocol):
    """How a surface tries a step. After each trial all is as it was before."""

    def alone(
        self, batch: Any, replacements: Sequence[Any] | None = None, *, is_redrawn: bool = False
    ) -> Trial:
        """Of one process, on rank 0.

        Args:
            batch: Of all peers.
            is_redrawn: Whether its random numbers are other ones.
            replacements: The gradients that its optimizers get; None: those of the batch. Then the
                rank and size that the step sees are those of the job.
        """

    def together(self, samples: Sequence[int]) -> Trial:
        """Of all peers. Every peer calls it.

        Args:
            samples: How many samples each peer has.
        """

    def digits(self, trial: Trial) -> Any:
        """The floating dtype of the fewest digits that the step computes in."""

    def key_of(self, label: str) -> Any:
        """What tells the variable apart that has this label on all peers; None: not here."""

    def label_of(self, key: Any) -> str:
        """What a variable is called that all peers may have; empty: rank 0 has it alone."""


def verify(account: Account, joint: Joint, trials: Trials) -> Trial | None:
    """Verifies a step. Every peer calls it.

    Returns:
        The step of all peers; None if it could not be compared.

    Raises:
        VerificationError: On every peer, if it is not the step of a single process.
    """
    if joint.twins is not None:
        first, second = joint.twins
        account.fail(
            f"ranks {first} and {second} train on the same samples: give each peer its part, "
            "by kungfu_tf.data.shard(dataset)"
        )
    if not joint.is_known:
        return None
    one, problem = None, ""
    if peer.is_root():
        one, problem = _of_one_process(trials, joint.batch, is_first=not account.done)
    if problem := of_root(problem):
        account.cannot(problem)
        return None
    ours = trials.together(joint.samples)
    if ours.why_not:
        account.cannot(ours.why_not)
        return None
    account.fail_if(_gradients(trials, one, ours, joint.samples))
    account.fail_if(_variables(trials, joint, one, ours))
    if note := _results(trials, joint, one, ours):
        account.notes = [note]
    account.done += 1
    return ours


def _of_one_process(trials: Trials, batch: Any, *, is_first: bool) -> tuple[Trial | None, str]:
    """The step of one process, or why there is none."""
    try:
        one = trials.alone(batch)
        again = trials.alone(batch, is_redrawn=True) if is_first else one
    except Exception as error:  # whatever the program's own code raises
        text = plain_message(error) if hasattr(error, "message") else str(error)
        what = f"{type(error).__name__}: {text}".splitlines()[0]
        return None, f"with the samples of all peers the step fails in one process: {what}"
    if comparison.difference(one, again, trials.digits(one)) is not None:
        return None, (
            "the same step of one process gives another result each time. It draws random numbers "
            "that cannot be left out, outside of Keras' layers or in one without `training`"
        )
    return one, ""


def _gradients(trials: Trials, one: Trial | None, ours: Trial, samples: Sequence[int]) -> str:
    if one is None:
        return ""
    return comparison.difference(one, ours, trials.digits(one), samples) or ""


def _variables(trials: Trials, joint: Joint, one: Trial | None, ours: Trial) -> str:
    """What rank 0 finds in the variables, once their gradients are right. Every peer calls it.

    One process updates them from the gradients of all peers: so no rounding is made large by the
    optimizer. What each peer has counted for itself must make up what one process counts.
    """
    expected: Mapping[Any, Moved] = {}
    others: list[Any] = []
    if one is not None:
        updated = trials.alone(joint.batch, ours.given) if one.names else one
        expected = updated.variables
        exactness = trials.digits(one) if one.names else None
        others = comparison.moved_otherwise(expected, ours.variables, exactness)
        counters = comparison.counted_otherwise(one.variables, ours.variables)
        expected = {**expected, **{k: m for k, m in one.variables.items() if k in counters}}
        others += [key for key in counters if key not in others]
    labels = {key: label for key in others if (label := trials.label_of(key))}
    told = of_root("\n".join(labels.values()))
    ways = _ways(trials, ours, told.split("\n") if told else [])
    if one is None:
        return ""

    def is_counted(key: Any) -> bool:
        """Whether the peers have counted it apart, and together as much as one process."""
        mine, parts = one.variables.get(key), ways.get(labels.get(key, ""))
        if mine is None or parts is None:
            return False
        way = mine.after - mine.before
        return comparison.is_made_of(way, parts, _shares(joint), trials.digits(one))

    wrong = [key for key in others if not is_counted(key)]
    right = {*expected, *ours.variables} - set(others)
    if not one.names and not comparison.strays(expected, ours.variables, wrong, right):
        return ""
    if not wrong:
        return ""
    mine, theirs = expected.get(wrong[0]), ours.variables.get(wrong[0])
    return comparison.worded(mine, theirs, knows_gradients=bool(one.names))


def _ways(trials: Trials, ours: Trial, labels: Sequence[str]) -> dict[str, list[Any]]:
    """How each peer has moved these variables; without elements where it has not."""
    ways: list[Any] = []
    for label in labels:
        moved = ours.variables.get(trials.key_of(label))
        is_number = moved is not None and np.issubdtype(moved.after.dtype, np.number)
        ways.append(moved.after - moved.before if moved is not None and is_number else np.array([]))
    rows = gather_any(ways, name="verify/ways") if labels else []
    return {label: [row[i] for row in rows] for i, label in enumerate(labels)}


def _results(trials: Trials, joint: Joint, one: Trial | None, ours: Trial) -> str:
    """What the last line says of the numbers that the step returns. Every peer calls it."""
    rows = gather_any(ours.results, name="verify/results")
    if one is None or len({len(row) for row in [*rows, one.results]}) > 1:
        return ""
    odd = [
        i
        for i, (total, *parts) in enumerate(zip(one.results, *rows, strict=True))
        if not comparison.is_made_of(total, parts, _shares(joint), trials.digits(one))
        and not comparison.is_one_of(total, parts, trials.digits(one))
    ]
    if not odd:
        return ""
    return (
        f"number {odd[0]} of those that the step returns is neither mean nor sum of the peers': "
        f"{rows[0][odd[0]]:.6g} on rank 0, and {one.results[odd[0]]:.6g} in one process"
    )


def _shares(joint: Joint) -> list[float]:
    return [n / sum(joint.samples) for n in joint.samples]
