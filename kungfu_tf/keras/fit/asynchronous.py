"""An elastic training (`elastic_run.py`) whose peers do not meet in each step.

There is no common step after which all peers could change their membership. Instead each pass
through the data has one meeting. A peer enters it after a step of its own, when

- it has trained on all samples that it was dealt,
- it has heard of a change, or
- its training stops.

In the meeting all learn how far each has come. If all are through, the epoch ends. Otherwise they
leave `fit` together, and the rest of the epoch is dealt anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.context.meets import Meets
from kungfu_tf.keras.fit.elastic_run import ElasticRun
from kungfu_tf.keras.fit.place import Place


class AsynchronousElasticRun(ElasticRun):
    """An `ElasticRun` in which each peer counts for itself until the next meeting."""

    meets = Meets.NEVER

    def total_of(self, samples: Any) -> tuple[Any, Any]:
        """How many samples all peers would have if all batches were whole, and how many they are.

        Asks no peer.
        """
        self.samples.assign_add(tf.cast(samples, tf.int64))
        self.steps.assign_add(1)
        peers = tf.cast(ops.cluster_size(), tf.int64)
        return self.dealt.batch_size * peers, peers

    def go_to(self, place: Place) -> None:
        """Continues from a place of this training."""
        super().go_to(place)
        self.samples.assign(0)

    def announce_news(self) -> None:
        """Does nothing: in a step this peer tells the others nothing."""

    def commit(self) -> None:
        """Counts the steps that this peer has made."""
        steps = int(self.steps.numpy())
        self.step += steps - self._committed_steps
        self._committed_steps = steps

    def leaves_fit(self, model: Any, epoch: int) -> bool:
        """Enters the meeting if it is time. Returns whether all peers leave `fit` there.

        If the training of one peer stops, that of all does.
        """
        del epoch
        rank, size = self.position.among
        is_through = self._committed_steps >= self.dealt.batches(0, size)
        if not (is_through or model.stop_training or peer.outdated() or self._has_lost_peers):
            return False
        mine = [rank, self.samples.numpy(), is_through, bool(model.stop_training)]
        rows = ops.all_gather(np.array(mine, np.int64), name="fit/pass").numpy()
        ranks, samples, through, stops = rows.T
        shares = np.zeros(size, np.int64)
        shares[ranks] = samples
        self.position.commit_shares(shares.tolist())
        self.trained_samples += int(samples.sum())
        if stops.any():
            model.stop_training = True
        return not (stops.any() or (through.all() and len(rows) == size))

    def _begin_pass(self) -> None:
        super()._begin_pass()
        self.samples.assign(0)
        self.steps.assign(0)
        self._committed_steps = 0
