"""Horovod's own errors."""

from __future__ import annotations

from kungfu_tf.membership.failing_together import LeaveTogether

__all__ = ["HorovodInternalError", "HorovodVersionMismatchError", "HostsUpdatedInterrupt"]


class HorovodInternalError(RuntimeError):
    """A collective has failed.

    Operations raise TensorFlow's errors, or kungfu_tf's. `hvd.elastic.run` treats those that
    another process has caused as this one.
    """


class HostsUpdatedInterrupt(RuntimeError, LeaveTogether):
    """The processes of a job change. All of them raise it at the same place.

    Args:
        skip_sync: Whether the state needs no synchronisation.
    """

    def __init__(self, skip_sync: bool) -> None:
        super().__init__()
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """A framework has another version than the one that Horovod was built for.

    Args:
        name: The framework.
        version: The version that was found.
        installed_version: The version that it was built for.
    """

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(f"{name} {version} was found, and {installed_version} is needed")
        self.name = name
        self.version = version
        self.installed_version = installed_version
