"""Where the peers are in the data."""

from __future__ import annotations

import kungfu_tf as kf
from kungfu_tf.data import Position

JOBS = [{"np": 3}]
NEEDS_KERAS = False


def case_all_are_where_rank_0_is():
    """Also if it has seen later samples than some that are left."""
    position = Position()
    position.of_length(20)
    if kf.is_root():
        position.commit_shares([3, 0, 2])
    position.synchronize()
    assert position.sample == 5
    assert position.rest().tolist() == [1, 4, 7, 8, *range(9, 20)]
