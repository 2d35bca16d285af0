"""The progress of the training when its peers were started anew."""

from __future__ import annotations

from kungfu_tf import config, peer


def init_progress() -> int:
    """Returns the progress that the previous peers gave to `resize` when they left.

    The program itself restores weights and everything else from its checkpoint. All peers call this
    when they begin.

    Returns:
        The last progress that was given; 0 if there was none, as in a job that has just begun.
        After a failure (`kungfu-run -auto-recover`) the progress with which the failed peers began.

    Raises:
        KungfuError: As from `all_reduce_int_max`.

    Example:

    ```python
    state = kf.elastic.ElasticState(10_000, progress=kf.init_progress())
    ```
    """
    mine = config.PROGRESS.get()
    # A host that had no peer before does not know it.
    was_restarted = config.RESTARTS.get() > 0 and not peer.joining()
    return peer.all_reduce_int_max(mine) if was_restarted else mine
