"""A file that shows when each operation of a peer begins and ends."""

from __future__ import annotations

import os

from kungfu_tf.native import foreign_job, libraries

__all__ = ["start_timeline", "stop_timeline"]


def start_timeline(path: str | os.PathLike[str]) -> None:
    """Records when the operations of this peer begin and end.

    They go into a file that chrome://tracing and ui.perfetto.dev open, in the "Trace Event Format"
    of Chrome: a row for each operation's name. Times are those of the host's clock, so the files of
    several peers can be laid side by side. `kungfu-run -timeline FILE` records all peers from their
    start.

    Each peer that calls it records its own operations, until `stop_timeline`, another start, or its
    end. What a peer that is killed did in its last second may be missing.

    Args:
        path: A new file. One that is there is replaced.

    Raises:
        KungfuError: If the file cannot be made.

    Example:

    ```python
    kf.start_timeline(f"trace.{kf.rank()}.json")
    model.fit(dataset, steps_per_epoch=100)
    kf.stop_timeline()
    ```
    """
    foreign_job.join()
    libraries.check(libraries.core().kungfu_start_timeline(os.fsencode(path)))


def stop_timeline() -> None:
    """Ends what `start_timeline` began, and closes the file.

    Raises:
        FailedPreconditionError: If nothing is recorded.
        KungfuError: If the file could not be written, say because the disk is full.
    """
    libraries.check(libraries.core().kungfu_stop_timeline())
