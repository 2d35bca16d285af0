"""Prolongs datasets of unknown length to one length: the peers ask each other for batches.

A round is a number of batches that the peers take before they ask. It ends at a meeting, or where
the program ends an epoch. The first batch is a round of its own, because a peer may look at it
before the first step. At its end each peer tells how many batches it has come to. All take as
many as the peer with the most: those that had fewer get empty batches. If no peer has filled the
round, the data have ended.

Between two questions peers without batches wait for the others, who must exchange nothing else
meanwhile.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf.ops import kernels

# Batches that are read ahead. Questions are not asked ahead: a change of the strategy between two
# steps would end one that waits for an answer.
_AHEAD = 2
_UNKNOWN = np.int64(-1)
_ENDLESS = 1 << 62


@dataclasses.dataclass(frozen=True)
class Rounds:
    """The ends of the rounds, which are the same on all peers.

    Attributes:
        first: Called when an iterator begins. Returns how many batches were taken before it, and
            how many are taken at the first meeting.
        next_meeting: From the batches that are taken at a meeting, those at the next one: a
            function of int64 scalars.
        epoch: The number of batches of an epoch, if the program has set it. An iterator begins
            where an epoch begins.
    """

    first: Callable[[], tuple[int, int]]
    next_meeting: Callable[[Any], Any]
    epoch: int = _ENDLESS


EACH_BATCH = Rounds(lambda: (0, 1), lambda meeting: meeting + 1)


def while_anybody_has_one(
    dataset: tf.data.Dataset, empty: tf.data.Dataset, rounds: Rounds, tag: str
) -> tf.data.Dataset:
    """The dataset, followed by empty batches until all peers are done.

    Each iterator asks under a number of its own, because one that was dropped may have asked once
    more than those of other peers.

    Args:
        dataset: A dataset of batches.
        empty: An endless dataset of empty ones.
        rounds: When to ask.
        tag: The name of the questions.
    """
    iterators = itertools.count()

    def begin() -> list[Any]:
        now = tf.numpy_function(lambda: np.array([next(iterators), *rounds.first()]), [], tf.int64)
        number, taken, meeting = tf.unstack(tf.ensure_shape(now, [3]))
        ends = [taken + 1, meeting, taken + rounds.epoch]
        return [number, taken, *ends, tf.constant(_UNKNOWN)]

    @tf.autograph.experimental.do_not_convert
    def take(state: Any, element: Any) -> Any:
        is_real, batch = element
        state = tf.cond(state[0] < 0, begin, lambda: list(state))
        number, taken, second, meeting, epoch_end, last = state
        is_meeting, is_epoch = tf.equal(taken, meeting), tf.equal(taken, epoch_end)
        meeting = tf.where(is_meeting, rounds.next_meeting(meeting), meeting)
        epoch_end = tf.where(is_epoch, epoch_end + rounds.epoch, epoch_end)
        is_new_round = is_meeting | is_epoch | tf.equal(taken, second)
        last = tf.where(is_new_round, _UNKNOWN, last)
        end = tf.where(taken < second, second, tf.minimum(meeting, epoch_end))
        reached = taken + tf.cast(is_real, tf.int64)

        def ask() -> Any:
            return kernels.run("kungfu_numbered_all_reduce", reached, number, op="max", tag=tag)

        must_ask = tf.equal(last, _UNKNOWN) & (tf.equal(reached, end) | ~is_real)
        last = tf.cond(must_ask, ask, lambda: last)
        return (number, taken + 1, second, meeting, epoch_end, last), (
            is_real | (taken < last),
            batch,
        )

    batches = _marked(dataset, True).concatenate(_marked(empty, False)).prefetch(_AHEAD)
    state = (_UNKNOWN, *[np.int64(0)] * 4, _UNKNOWN)
    asked = batches.scan(state, take).take_while(lambda goes_on, batch: goes_on)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return in_turn(asked, lambda pair: pair[1]).with_options(options)


def in_turn(dataset: tf.data.Dataset, function: Callable[[Any], Any]) -> tf.data.Dataset:
    """Maps elements one after the other. `map` may be made parallel, and would ask ahead then."""
    return dataset.scan(np.int64(0), lambda state, element: (state, function(element)))


def _marked(dataset: tf.data.Dataset, is_real: bool) -> tf.data.Dataset:
    return tf.data.Dataset.zip((tf.data.Dataset.from_tensors(is_real).repeat(), dataset))
