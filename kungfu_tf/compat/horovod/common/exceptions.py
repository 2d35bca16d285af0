"""Horovod's own errors."""

from __future__ import annotations

__all__ = ["HorovodInternalError", "HorovodVersionMismatchError", "HostsUpdatedInterrupt"]


class HorovodInternalError(RuntimeError):
    """A collective has failed. kungfu_tf raises TensorFlow's errors in its place."""


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of a job have changed.

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
