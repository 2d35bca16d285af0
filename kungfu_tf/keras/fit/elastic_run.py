"""A training that goes through several calls of `fit`, one after each change of the peers.

One call of `fit` works with one list of peers. When the list changes, all peers leave `fit` after
the same step, and call it again for the rest of the epoch. Newcomers learn from rank 0 how far the
training is.

In each step the peers add up the numbers of samples in their batches. In the same exchange a peer
announces that it has heard of a change. So the announcement costs nothing, and all peers know of it
after the same step. The peers of `asynchronous.py` exchange nothing in a step.

A lost peer (`kungfu-run -on-failure survive`) is a change, too. The others make a step or two
without it, and then deal out the rest of the epoch anew, with the lost peer's samples. The exchange
has a number for each peer that the data were dealt to, so all know how far the lost one was.

    elastic_run.py        how far the training is
    place.py              the same, as rank 0 tells it
    count_steps.py        the first callback: counts steps
    membership_change.py  the last callback: leaves `fit`
    epoch_metrics.py      the metrics of an epoch, from one call to the next
    shared_rates.py       rank 0's learning rates, for all peers
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.context import ordinals
from kungfu_tf.context.meets import Meets
from kungfu_tf.data.dealt import Dealt
from kungfu_tf.data.rebatch import Sizes
from kungfu_tf.keras.fit import agreement
from kungfu_tf.keras.fit.epoch_metrics import EpochMetrics
from kungfu_tf.keras.fit.place import Place


class ElasticRun:
    """One elastic training on this peer: how far it is, and the state that calls of `fit` share.

    Args:
        dealt: The data, which begin at the position where training begins.
        epochs: The epoch after which training ends.
        batch_size: The first batch size of a peer, if policies change it; 0: the size that the data
            have. None: no policy does.
        earlier_steps: How many steps an earlier run made that this training continues.

    Attributes:
        meets: How often the peers meet.
        number: Which elastic training of the program this is, from 0.
        position: The position in the data.
        step: How many steps this training has made.
        trained_samples: How many samples all peers have trained on, including those before the
            backup that this training continues.
        batch_size: The current batch size of a peer, as for the argument.
        first_batch_size: The batch size of a peer at the beginning.
        has_begun: Whether the next call of `fit` begins in the middle of an epoch.
        is_warming_up: Whether this peer tries a step alone, before it is taken in.
        metrics: The metrics of an epoch that several calls of `fit` share.
        samples: A variable: the samples that all peers have trained on, counted in the graph.
        steps: A variable: the steps that were made, counted in the graph.
    """

    meets: ClassVar[Meets] = Meets.EVERY_STEP

    def __init__(
        self,
        dealt: Dealt,
        *,
        epochs: int = 1,
        batch_size: int | None = None,
        earlier_steps: int = 0,
    ) -> None:
        self.number = ordinals.trainings.take()
        self.dealt = dealt
        self.epochs = epochs
        self.position = dealt.position
        self.step = 0
        self.trained_samples = 0
        self.batch_size = batch_size
        self.first_batch_size = batch_size or dealt.batch_size
        self.has_begun = False
        self.is_warming_up = False
        self.metrics = EpochMetrics()
        self._earlier_steps = earlier_steps
        self._sizes: Sizes | None = None
        self._first_sample, self._first_gaps = 0, self.position.gaps  # of this pass
        self._committed_steps = 0
        self._some_peer_has_news = False
        # The step is traced once for all calls of `fit`. So what it counts lives as long.
        self._has_news = _counter("kungfu_has_news")
        self._peers_with_news = _counter("kungfu_peers_with_news")
        self._rank, self._size = _counter("kungfu_rank"), _counter("kungfu_size")
        self._shares = _counter("kungfu_shares", [None])  # the samples of each in this pass
        self.samples = _counter("kungfu_samples")
        self.steps = _counter("kungfu_steps")
        self._deal_among(peer.membership_version(), peer.rank(), peer.size())

    @property
    def all_steps(self) -> int:
        """How many steps were made, including those of the run that this training continues."""
        return self._earlier_steps + self.step

    @property
    def done_before(self) -> float:
        """Which part of the epoch was done before this pass through the data, from 0 to 1."""
        length = self.position.length
        return self._first_sample / length if length else 0.0

    def use_sizes(self, sizes: Sizes) -> None:
        """Takes the sizes of batches from `sizes` in this call of `fit`, which policies change."""
        self._sizes = sizes

    def resume(
        self,
        *,
        epoch: int,
        steps: int,
        sample: int = 0,
        trained_samples: int = 0,
        batch_size: int | None = None,
    ) -> None:
        """Continues an earlier run from its backup, before the first step.

        Args:
            epoch: The epoch to continue.
            steps: How many steps the earlier run made.
            sample: How many samples of the epoch are done.
            trained_samples: How many samples all peers had trained on.
            batch_size: The batch size of a peer, if policies changed it.
        """
        self.position.begin(epoch)
        self.position.sample = sample
        self._earlier_steps = steps
        self.trained_samples = trained_samples
        if self.batch_size is not None and batch_size:
            self.batch_size = batch_size

    @property
    def place(self) -> Place:
        """Where this peer is."""
        position = self.position
        return Place(
            self.number,
            position.epoch,
            position.sample,
            self.step,
            self._earlier_steps,
            self.trained_samples,
            self._sizes.newest if self._sizes else self.batch_size,
            tuple(map(int, position.gaps)),
        )

    def place_of_root(self) -> Place:
        """Where rank 0 is. All peers call it. The data are dealt among the peers of now."""
        while True:  # until no peer is lost meanwhile
            version, rank, size = peer.membership_version(), peer.rank(), peer.size()
            if set(agreement.gather_ints([version])) != {version}:
                continue
            mine = self.place.to_integers() if rank == 0 else []
            if of_root := agreement.gather_ints(mine):
                self._deal_among(version, rank, size)
                return Place.from_integers(of_root)

    def go_to(self, place: Place) -> None:
        """Continues from a place of this training."""
        position = self.position
        position.epoch, position.sample = place.epoch, place.sample
        position.gaps = np.array(place.gaps, np.int64)
        self.step, self._earlier_steps = place.step, place.earlier_steps
        self.trained_samples, self.batch_size = place.trained_samples, place.batch_size
        self._begin_pass()
        self.samples.assign(place.trained_samples)
        self.has_begun = place.sample > 0

    @contextlib.contextmanager
    def warming_up(self) -> Iterator[None]:
        """Within it `fit` ends after its first step. Afterwards the training is where it was."""
        place = self.place
        self.is_warming_up = True
        try:
            yield
        finally:
            self.is_warming_up = False
            self.go_to(place)

    def total_of(self, samples: Any) -> tuple[Any, Any]:
        """How many samples this step's batches have on all peers, and how many peers these are.

        Learns of changes on the way.
        """
        rank, size = self._rank.read_value(), tf.cast(self._size.read_value(), tf.int32)
        mine = tf.one_hot(rank, size, on_value=tf.cast(samples, tf.int64), off_value=np.int64(0))
        more = tf.stack([self._has_news.read_value(), 1])
        sums = ops.all_reduce(tf.concat([mine, more], 0), op="sum", name="samples")
        total = tf.reduce_sum(sums[:-2])
        self._shares.assign_add(sums[:-2])
        self._peers_with_news.assign_add(sums[-2])
        self.samples.assign_add(total)
        self.steps.assign_add(tf.cast(total >= 0, tf.int64))  # if there was a batch
        return total, sums[-1]

    def samples_of_rank(self, rank: int) -> int:
        """How many samples a rank gets in this pass through the data."""
        return self.position.left(rank, self._number_of_peers, since=self._first_sample)

    def begin(self, epoch: int) -> None:
        """Goes to the beginning of an epoch."""
        self.position.begin(epoch)
        self.has_begun = False
        self._begin_pass()

    def announce_news(self) -> None:
        """Tells the other peers in the next step whether this one has heard of a change."""
        self._has_news.assign(int(peer.outdated() or self._has_lost_peers))

    def commit(self) -> None:
        """Counts the steps that were made.

        Keras 3 reports more steps than there were in the last execution of an epoch.
        """
        samples, steps = int(self.samples.numpy()), int(self.steps.numpy())
        self.position.commit(samples - self.trained_samples)
        self.step += steps - self._committed_steps
        self.trained_samples, self._committed_steps = samples, steps
        self._some_peer_has_news = int(self._peers_with_news.numpy()) > 0
        self._peers_with_news.assign(0)

    def leaves_fit(self, model: Any, epoch: int) -> bool:
        """Whether all peers leave `fit` after this step, in the middle of this epoch."""
        leaves = (
            self._some_peer_has_news and not model.stop_training and self._has_steps_left(epoch)
        )
        if leaves:  # of a lost peer's samples only some are done
            self.position.sample, self.position.gaps = self._first_sample, self._first_gaps
            self.position.commit_shares(self._shares.numpy().tolist())
        return leaves

    def _has_steps_left(self, epoch: int) -> bool:
        if self.position.epoch != epoch:
            return False
        return self._sizes is not None or self.dealt.batches(0, self._number_of_peers) > 0

    def _deal_among(self, version: int, rank: int, size: int) -> None:
        """Deals the data among the peers of a membership from now on."""
        self._version = version
        self.position.dealt_among = (rank, size)
        self._rank.assign(rank)
        self._size.assign(size)
        self._begin_pass()

    def _begin_pass(self) -> None:
        self._first_sample, self._first_gaps = self.position.sample, self.position.gaps
        self._shares.assign(np.zeros(self._number_of_peers, np.int64))

    @property
    def _number_of_peers(self) -> int:
        """The number of peers that the data were dealt to."""
        return self.position.among[1]

    @property
    def _has_lost_peers(self) -> bool:
        """Whether some of those that the data were dealt to are lost."""
        return peer.membership_version() != self._version


def _counter(name: str, shape: list[None] | None = None) -> Any:
    with tf.init_scope(), tf.device("CPU:0"):
        zero = 0 if shape is None else [0]
        return tf.Variable(zero, trainable=False, dtype=tf.int64, name=name, shape=shape)
