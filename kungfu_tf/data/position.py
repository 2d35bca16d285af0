"""The position of a training in its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorflow.python.eager import context as eager

from kungfu_tf import ops, peer


class Position:
    """The sample of the epoch that all peers together train on next.

    ```
    epoch e: samples 0 .. n − 1 of the data set, in an order that depends on e only
    sample:  all samples before it are done, on whatever peer
    ```

    Each pass through the result of `kungfu_tf.data.shard` begins here. A loop commits each step
    that all peers have made. After a change of the peers, newcomers get the position from rank 0,
    and all peers begin a new pass. So a change, or an error, costs the batches that were read
    ahead, but no sample.

    `kungfu_tf.elastic.fit` does all that by itself.

    Attributes:
        epoch: The current epoch, from 0.
        sample: How many samples of the epoch are done.
        gaps: The samples before `sample` that are not done. There are some only if the peers do not
            meet in each step.
        length: How many samples an epoch has; None until a dataset uses this position.
        dealt_among: The rank and the number of peers by which samples are dealt; None: those of the
            moment when a pass begins.

    Args:
        epoch: The epoch to begin with.
        sample: The sample to begin with, to resume from a checkpoint.

    Raises:
        ValueError: If a number is negative.

    Example:

    ```python
    position, state = kf.data.Position(), kf.elastic.ElasticState(None)
    dataset = kf.data.shard(samples, position=position).map(decode).batch(32).prefetch(8)
    while not state.stopped():
        with kf.elastic.ElasticContext(state) as should_sync:
            if should_sync:
                kf.initializer.broadcast_variables(variables)
                position.synchronize()
            if should_sync or position.sample == 0:
                batches = iter(kf.data.even(dataset))
            count, (x, y) = next(batches)
            train_step(x, y, count)
            position.commit(int(kf.ops.all_reduce(count)))
            if position.epoch == 10:
                state.max_progress = state.progress
    ```
    """

    def __init__(self, *, epoch: int = 0, sample: int = 0) -> None:
        if epoch < 0 or sample < 0:
            raise ValueError(f"a position is not negative, as epoch {epoch}, sample {sample}")
        self.epoch = epoch
        self.sample = sample
        self.gaps: Any = _NONE
        self.length: int | None = None
        self.dealt_among: tuple[int, int] | None = None

    @property
    def among(self) -> tuple[int, int]:
        """The rank and the number of peers by which the next pass is dealt."""
        return self.dealt_among or (peer.rank(), peer.size())

    def commit(self, samples: int) -> None:
        """Counts a step of all peers. After the last sample the next epoch begins.

        Args:
            samples: How many samples the batches of all peers had. If that is more than are left,
                the epoch is done.

        Raises:
            ValueError: If it is negative.
        """
        if samples < 0:
            raise ValueError(f"a step has 0 samples or more, not {samples}")
        self.sample += samples
        if self.length is not None and self.sample >= self.length:
            self.begin(self.epoch + 1)

    def commit_shares(self, samples: Sequence[int]) -> None:
        """Counts what each peer has done since this position, where peers do not meet in each step.

        Args:
            samples: By rank, how many of the samples that it was dealt a peer has done.
        """
        size = len(samples)
        begun = self.rest()[: max(len(self.gaps), size * max(samples))]
        rounds, ranks = np.divmod(np.arange(len(begun)), size)
        self.gaps = begun[rounds >= np.asarray(samples)[ranks]]
        self.commit(sum(samples))

    def begin(self, epoch: int) -> None:
        """Goes to the beginning of an epoch."""
        self.epoch, self.sample, self.gaps = epoch, 0, _NONE

    def synchronize(self) -> None:
        """Gives all peers the position of rank 0. All call it, after a change of the peers."""
        if peer.is_single_process():
            return
        mine = [self.epoch, self.sample, *self.gaps] if peer.rank() == 0 else []
        with eager.eager_mode():
            gathered = ops.all_gather(np.array(mine, np.int64), concat=True, name="data/position")
        epoch, sample, *gaps = np.asarray(gathered).tolist()
        self.epoch, self.sample, self.gaps = epoch, sample, np.array(gaps, np.int64)

    def of_length(self, length: int) -> None:
        """Learns how many samples an epoch has, from a dataset that uses this position.

        Raises:
            ValueError: If another dataset has another length, or the position lies behind the end.
        """
        if self.length not in (None, length):
            raise ValueError(
                f"data sets with {self.length} and with {length} samples cannot have one position"
            )
        if self.sample > length:
            raise ValueError(f"there is no sample {self.sample} in a data set of {length}")
        self.length = length

    def rest(self) -> Any:
        """The numbers of the samples that are not done, in the order of the epoch."""
        assert self.length is not None, "a data set has told it"
        return np.append(self.gaps, np.arange(self.sample + len(self.gaps), self.length))

    def left(self, rank: int, size: int, *, since: int | None = None) -> int:
        """How many samples a rank of `size` peers gets in the rest of the epoch.

        Args:
            rank: The rank.
            size: The number of peers.
            since: The sample from which they are dealt; None: from this position.
        """
        assert self.length is not None, "a data set has told it"
        first = self.sample if since is None else since
        return max(0, -(-(self.length - first - rank) // size))


_NONE = np.empty(0, np.int64)
