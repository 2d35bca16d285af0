"""Peers without data take part in what the others still do."""

from __future__ import annotations

import ctypes

from kungfu_tf import peer
from kungfu_tf.native import calls, libraries


def join() -> int:
    """Waits until all peers have called it, and takes part in what they do until then.

    A peer whose data have ended calls it. It changes nothing in each all-reduce of the others: a
    sum, product, maximum or minimum is that of the others. A mean, as that of gradients, is their
    sum divided by the number of all peers. Any other operation of theirs is an error that names
    this peer. So is one along trees (`subset_all_reduce`).

    Each peer makes a step before: the first one compares the peers' variables, which is no
    all-reduce. A peer without any data makes it with a weight of 0 (`DistributedGradientTape`'s
    `samples`).

    This peer's own model stands still meanwhile. The others' models are equal at the end: broadcast
    variables and optimizer from the returned rank. `data.even` needs no broadcast, and weights
    means by samples; `fit` does the same by itself.

    Returns:
        A rank that has called it last, the same on all peers.

    Raises:
        DeadlineExceededError: If for KUNGFU_COLLECTIVE_TIMEOUT seconds no peer has called it, and
            none has begun an operation. The message names those that have not called it.
        UnavailableError: If a peer is gone.
        CancelledError: If a peer has ended without it.
        FailedPreconditionError: With `kungfu-run -on-failure survive`; or as from `init`.

    Example:

    ```python
    for batch in dataset:  # a peer's own: their lengths may differ
        train_step(batch)
    last = kf.data.join()
    kf.initializer.broadcast_variables([*model.variables, *optimizer.variables], root=last)
    ```
    """
    before = ctypes.c_int()
    calls.run(libraries.core().kungfu_join, ctypes.byref(before), memory=before)
    size = peer.size()
    place = before.value * size + peer.rank()
    return calls.largest_of_all(place, "kungfu_tf/join") % size
