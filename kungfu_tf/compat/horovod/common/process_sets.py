"""The set of all processes, which is the only one."""

from __future__ import annotations

from kungfu_tf import errors, peer

__all__ = ["ProcessSet", "global_process_set"]


class ProcessSet:
    """A set of ranks.

    Args:
        ranks_or_comm: Its ranks.

    Raises:
        NotImplementedError: If it is not the set of all processes.
    """

    process_set_id = 0

    def __init__(self, ranks_or_comm: object) -> None:
        raise NotImplementedError(
            "process sets (horovod.tensorflow.ProcessSet) are missing in kungfu_tf.compat: "
            "collectives are those of all processes"
        )

    @property
    def ranks(self) -> list[int]:
        """All ranks."""
        return list(range(peer.size()))

    def size(self) -> int:
        """How many processes there are."""
        return peer.size()

    def rank(self) -> int:
        """This process' rank."""
        return peer.rank()

    def included(self) -> bool:
        """Whether this process is in it."""
        return True


global_process_set = object.__new__(ProcessSet)


def check(process_set: object) -> None:
    """Raises an UnimplementedError if it is not the set of all processes."""
    if process_set is not global_process_set and process_set != 0:
        raise errors.UnimplementedError(
            f"process sets are missing in kungfu_tf.compat: process_set={process_set!r}"
        )
