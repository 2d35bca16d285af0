"""State that is committed to memory, and restored from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["ObjectState", "State"]


class State:
    """What a training continues from.

    Args:
        bcast_object: Gives all processes the object of rank 0.
        get_rank: Returns this process' rank.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: list[Callable[[], Any]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], Any]]) -> None:
        """Functions that `on_reset` calls."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Is called when the processes have changed."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: Any) -> None:
        """Is called when hosts come or go: in a job of kungfu-run they do not."""

    def commit(self) -> None:
        """Saves the state, and looks for changes of hosts."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Looks for changes of hosts: there are none."""

    def save(self) -> None:
        """Keeps the state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Undoes what has changed since the last `save`."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives all processes rank 0's state."""
        raise NotImplementedError

    def reset(self) -> None:
        """Prepares for other processes."""


class ObjectState(State):
    """Python objects, which become attributes.

    Args:
        bcast_object: As for `State`.
        get_rank: As for `State`.
        **kwargs: The objects.
    """

    def __init__(
        self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state = kwargs
        self._put_back()

    def save(self) -> None:
        """Keeps the attributes as they are."""
        self._saved_state = {name: getattr(self, name) for name in self._saved_state}

    def restore(self) -> None:
        """Sets the attributes as they were kept."""
        self._put_back()

    def sync(self) -> None:
        """Gives all processes the attributes that rank 0 has kept."""
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._put_back()

    def _put_back(self) -> None:
        vars(self).update(self._saved_state)
