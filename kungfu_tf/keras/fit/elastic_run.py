"""A training that goes through several calls of `fit`, one after each change of the peers.

`fit` knows one list of peers, from its first agreement to its last. So where the peers change, all
of them leave it after the same step, and call it again for the rest of the epoch: those that stay,
and those that have come, which are told where the training is. A peer that has heard of a change
says so in the exchange that each step has anyway, of how many samples the batches have: that costs
nothing, and all know it after the same step. (`asynchronous`: where steps exchange nothing.)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.data.position import Dealt
from kungfu_tf.keras.fit import agreement
from kungfu_tf.membership.failing_together import LeaveTogether
from kungfu_tf.replicas import average, metrics
from kungfu_tf.replicas.moving_statistics import average_statistics
from kungfu_tf.upstream import generations
from kungfu_tf.upstream.callback import Callback


class Change(LeaveTogether):
    """Leaves `fit`, on all peers, because others will take part."""


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
        self._since = 0
        self._committed = 0
        self._states: list[Any] = []
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

    def keep(self, model: Any, differs: bool) -> None:
        """Gives all peers of today what they have together, so that rank 0 can pass it on."""
        if differs:
            average.assign_means(average.averaged_variables(model), name="fit/change")
        else:
            average_statistics(model)
        metrics.sum_states(model.metrics)
        self._states = [generations.native(v).numpy() for m in model.metrics for v in m.variables]

    def go_on_counting(self, model: Any) -> None:
        """Rank 0's metrics have what was before."""
        states, self._states = self._states, []
        variables = [generations.native(v) for m in model.metrics for v in m.variables]
        if peer.is_root() and len(states) == len(variables):
            for variable, state in zip(variables, states, strict=True):
                variable.assign(state)


class FollowSteps(Callback):
    """The first callback of a `fit` that follows: the others see a step that is committed."""

    def __init__(self, elastic_run: ElasticRun) -> None:
        super().__init__()
        self._elastic_run = elastic_run
        self._goes_on = False

    def on_train_begin(self, logs: Any = None) -> None:
        del logs
        self._goes_on = self._elastic_run.step > 0 and not peer.is_single_process()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del logs
        elastic_run = self._elastic_run
        if elastic_run.position.epoch != epoch:  # as a callback has found it in a checkpoint
            elastic_run.begin(epoch)
        if elastic_run.has_begun:
            elastic_run.go_on_counting(self.model)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """All get rank 0's learning rates before other callbacks look; the variables follow."""
        del batch, logs
        if self._goes_on:
            _share_rates(self.model)
            self._goes_on = False
        self._elastic_run.tell()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del batch, logs
        self._elastic_run.commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del logs
        self._elastic_run.begin(epoch + 1)


class FollowChanges(Callback):
    """The last callback of a `fit` that follows: leaves it if the peers change."""

    def __init__(self, elastic_run: ElasticRun, differs: bool) -> None:
        super().__init__()
        self._elastic_run = elastic_run
        self._differs = differs
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del logs
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del batch, logs
        elastic_run = self._elastic_run
        if elastic_run.only_warms_up:
            raise Change
        if elastic_run.goes_over(self.model, self._epoch):
            elastic_run.keep(self.model, self._differs)
            raise Change

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """All have rank 0's learning rate: callbacks of newcomers may know less than others."""
        del epoch, logs
        _share_rates(self.model)


def _share_rates(model: Any) -> None:
    """Gives all peers rank 0's learning rates. Theirs may not be variables yet."""
    parts = [
        p for o in generations.optimizers_of(model) for p in generations.parts_of(o) if _has_rate(p)
    ]
    mine = np.array([np.asarray(part.learning_rate) for part in parts], np.float64)
    if len(parts) > 0:
        roots = ops.broadcast(mine, name="fit/learning_rates").numpy()
        for part, rate in zip(parts, roots, strict=True):
            part.learning_rate = float(rate)


def _has_rate(optimizer: Any) -> bool:
    """Whether it has one, a number and no schedule. One that delegates shows that of a part."""
    if len(list(generations.parts_of(optimizer))) > 1:
        return False
    legacy = vars(optimizer).get("_hyper", {})
    rate = vars(optimizer).get("_learning_rate", legacy.get("learning_rate"))
    return rate is not None and not callable(rate)


def _counter(name: str) -> Any:
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.Variable(0, trainable=False, dtype=tf.int64, name=name)
