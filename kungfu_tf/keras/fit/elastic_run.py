"""A training that goes through several calls of `fit`, one after each change of the peers.

`fit` knows one list of peers, from its first agreement to its last. So where the peers change, all
of them leave it after the same step, and call it again for the rest of the epoch. Those that have
come are told where the training is.

A peer that has heard of a change says so in an exchange that each step has anyway: of how many
samples the batches have. That costs nothing, and all know it after the same step. The peers of
`asynchronous.py` exchange nothing in a step.

    elastic_run.py        where the training is
    follow_steps.py       the first callback: counts steps
    membership_change.py  the last callback: leaves `fit`
    epoch_metrics.py      the metrics of an epoch, from one call to the next
    shared_rates.py       rank 0's learning rates, for all peers
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.data.position import Dealt
from kungfu_tf.keras.fit import agreement
from kungfu_tf.keras.fit.epoch_metrics import EpochMetrics


class ElasticRun:
    """A training, where it is, and what the next call of `fit` goes on with.

    Args:
        dealt: Its data, from the position on where it begins.

    Attributes:
        is_synchronous: Whether the peers meet in every step.
        epochs: How many there are to be.
        step: How many steps have been made.
        before: How many an earlier run had made, which this training goes on with.
        trained: How many samples of all peers, those before the backup that it goes on with, too.
        batch_size: Of each peer, if policies change it; 0: what the data have.
        first_batch_size: That which the training began with.
        sizes: What gives batches their sizes then.
        has_begun: Whether the epoch that `fit` begins with has begun already.
        only_warms_up: Whether this peer is alone, and gets ready.
        has_function: Whether the train function has been made.
        has_news: Whether some peer knew of a change, in the last steps.
        metrics: Those of the epoch that `fit` begins with, if it has begun already.
    """

    is_synchronous: ClassVar[bool] = True

    def __init__(self, dealt: Dealt, *, epochs: int = 1) -> None:
        self.dealt = dealt
        self.epochs = epochs
        self.position = dealt.position
        self.step = 0
        self.before = 0
        self.trained = 0
        self.batch_size: int | None = None
        self.first_batch_size = dealt.batch_size
        self.sizes: Any = None
        self.has_begun = False
        self.only_warms_up = False
        self.has_function = False
        self.has_news = False
        self.metrics = EpochMetrics()
        self._since = 0
        self._committed = 0
        # What the step of the graph counts. Its function is traced once, for all calls.
        self._knows = _counter("kungfu_knows")
        self._news = _counter("kungfu_news")
        self.samples = _counter("kungfu_samples")
        self.steps = _counter("kungfu_steps")

    @property
    def all_steps(self) -> int:
        """How many have been made, in all runs."""
        return self.before + self.step

    def total_of(self, samples: Any) -> Any:
        """How many samples the batches of all peers have, in this step; notes who knows more."""
        mine = tf.stack([tf.cast(samples, tf.int64), self._knows.read_value()])
        sums = ops.all_reduce(mine, op="sum", name="samples")
        self._news.assign_add(sums[1])
        self.samples.assign_add(sums[0])
        self.steps.assign_add(tf.cast(sums[0] >= 0, tf.int64))  # if there was a batch
        return sums[0]

    def from_root(self, *more: int) -> list[int]:
        """Where rank 0 is, for `be_at`, and `more` of it. All must call it."""
        position = self.position
        size = self.sizes.newest if self.sizes else self.batch_size
        size = -1 if size is None else size
        place = position.epoch, position.sample, self.step, self.before, self.trained
        mine = [*more, *place, size, *position.gaps]
        return agreement.gather_ints(mine if peer.is_root() else [])

    def be_at(self, told: list[int]) -> None:
        """Is where rank 0 is."""
        position = self.position
        position.epoch, position.sample, self.step, self.before, self.trained, size, *gaps = told
        position.gaps = np.array(gaps, np.int64)
        self._since = position.sample
        self.batch_size = None if size < 0 else size
        self.samples.assign(self.trained)
        self.has_begun = position.sample > 0

    def dealt_to(self, rank: int) -> int:
        """How many samples a rank gets in this pass through the data."""
        return self.position.left(rank, peer.size(), since=self._since)

    def begin(self, epoch: int) -> None:
        """Goes to the beginning of an epoch."""
        self.position.begin(epoch)
        self._since, self.has_begun = 0, False

    def tell(self) -> None:
        """Says in the next step what this peer knows."""
        self._knows.assign(int(peer.outdated()))

    def commit(self) -> None:
        """Counts the steps that were made: Keras 3 says more of an epoch's last execution."""
        trained, steps = int(self.samples.numpy()), int(self.steps.numpy())
        self.position.commit(trained - self.trained)
        self.step += steps - self._committed
        self.trained, self._committed = trained, steps
        self.has_news = int(self._news.numpy()) > 0
        self._news.assign(0)

    def goes_over(self, model: Any, epoch: int) -> bool:
        """Whether all peers leave `fit` after this step: others take part, and it has not ended."""
        return self.has_news and not model.stop_training and self.is_in_epoch(epoch)

    def is_in_epoch(self, epoch: int) -> bool:
        """Whether this epoch has steps left."""
        if self.position.epoch != epoch:
            return False
        return self.sizes is not None or self.dealt.batches(0, peer.size()) > 0


def _counter(name: str) -> Any:
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.Variable(0, trainable=False, dtype=tf.int64, name=name)
