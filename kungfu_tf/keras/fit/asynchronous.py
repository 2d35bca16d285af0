"""A training, as in `elastic_run.py`, whose peers do not meet in each step.

There is no step after which all could change their membership. But each pass through the data has
one meeting, which every peer enters once, after a step of its own. It enters when

- it is through with the samples that it was dealt,
- it has heard of a change, or
- its training stops.

There all learn how far each has come. If all are through, the epoch ends. Otherwise they leave
`fit` together, and the rest of the epoch is dealt anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf import ops, peer
from kungfu_tf.keras.fit.elastic_run import ElasticRun
from kungfu_tf.upstream import generations


def is_synchronous(model: Any) -> bool:
    """Whether the peers that train this model meet in every step."""
    return peer.is_single_process() or all(
        a.is_synchronous for a in generations.algorithms_of_model(model)
    )


class AsynchronousElasticRun(ElasticRun):
    """`ElasticRun`, in which a peer's steps and samples are its own until the next meeting."""

    is_synchronous = False

    def total_of(self, samples: Any) -> Any:
        """The samples of all peers, if all batches were whole: no peer is asked."""
        self.samples.assign_add(tf.cast(samples, tf.int64))
        self.steps.assign_add(1)
        return self.dealt.batch_size * tf.cast(ops.cluster_size(), tf.int64)

    def be_at(self, told: list[int]) -> None:
        """Is where rank 0 is, and begins a pass."""
        super().be_at(told)
        self._begin_pass()

    def begin(self, epoch: int) -> None:
        """Goes to the beginning of an epoch."""
        super().begin(epoch)
        self._begin_pass()

    def tell(self) -> None:
        """Does nothing: no step tells the others."""

    def commit(self) -> None:
        """Counts the steps that this peer has made."""
        steps = int(self.steps.numpy())
        self.step += steps - self._committed
        self._committed = steps

    def goes_over(self, model: Any, epoch: int) -> bool:
        """Meets the others if it is time. If one of them stops, all do."""
        del epoch
        is_through = self._committed >= self.dealt.batches(0, peer.size())
        if not (is_through or model.stop_training or peer.outdated()):
            return False
        mine = np.array([self.samples.numpy(), is_through, bool(model.stop_training)], np.int64)
        samples, through, stops = ops.all_gather(mine, name="fit/pass").numpy().T
        self.position.commit_shares(samples.tolist())
        self.trained += int(samples.sum())
        if stops.any():
            model.stop_training = True
        return not (stops.any() or through.all())

    def _begin_pass(self) -> None:
        self.samples.assign(0)
        self.steps.assign(0)
        self._committed = 0
