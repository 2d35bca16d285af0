"""A loop with an ElasticContext whose steps go over to others themselves; prints "ok" on each."""

from __future__ import annotations

from elastic_server import wait_for_change

import kungfu_tf as kf

STEPS, GROWS = 6, 2
made: list[tuple[int, bool, int]] = []  # progress, whether all were to synchronize, and the peers

state = kf.elastic.ElasticState(STEPS)
while not state.stopped():
    with kf.elastic.ElasticContext(state) as should_sync:
        made.append((state.progress, should_sync, kf.size()))
        assert int(kf.ops.all_reduce(state.progress)) == kf.size() * state.progress, made
        if kf.is_root() and state.progress == GROWS:
            kf.propose_new_size(2)
            wait_for_change()
        if state.progress >= GROWS:
            kf.ops.resize(2)
alone = [(0, True, 1), (1, False, 1), (2, False, 1)]
together = [(3, True, 2), (4, False, 2), (5, False, 2)]
assert made == [*(alone if kf.is_root() else []), *together], made
print("ok", kf.rank(), flush=True)
