"""How far a program is, for the peers that are started anew in the place of these."""

from __future__ import annotations

import os

from kungfu_tf import config, peer


def change_cluster(progress: int) -> tuple[bool, bool]:
    """Goes over to the newest list of peers, as `resize`, in a training that has come so far.

    In a job of `kungfu-run -w -elastic-mode reload` all peers leave, and are started anew in
    another number: `init_progress` tells them.

    Args:
        progress: How far it is, in what the program counts: the same on all peers.

    Returns:
        Whether the peers are others now, and whether this one is none any more.

    Raises:
        ValueError: If the progress is negative.
        KungfuError: As from `resize`.

    Example:

    ```python
    changed, detached = kf.change_cluster(step)
    ```
    """
    if progress < 0:
        raise ValueError(f"progress is not negative, as {progress}")
    is_newcomer = peer.joining()
    changed = peer.resize()
    if changed and not is_newcomer:
        _write(progress)
    return changed, peer.detached()


def init_progress() -> int:
    """How far the training had come when the peers of before left it, by `change_cluster`.

    Weights and everything else are for the program to restore, from a checkpoint of that time.
    All peers call it when they begin.

    Returns:
        What they were told there last; 0 if nobody was, as in a job that has just begun. After a
        failure (`kungfu-run -auto-recover`): what those that failed were told when they began.

    Raises:
        KungfuError: As from `all_reduce_int_max`.

    Example:

    ```python
    state = kf.elastic.ElasticState(10_000, progress=kf.init_progress())
    ```
    """
    mine = config.PROGRESS.get()
    # A host that had no peer of before has not been told.
    was_restarted = config.RESTARTS.get() > 0 and not peer.joining()
    return peer.all_reduce_int_max(mine) if was_restarted else mine


def _write(progress: int) -> None:
    """For the launcher, which reads it when all peers have ended."""
    path = config.run_directory() / config.PROGRESS_FILE
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(str(progress))
    new.replace(path)
