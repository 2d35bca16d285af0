"""State that is committed to memory, and what is done again from it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from horovod.common._membership import HostMessages
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt

__all__ = ["ObjectState", "State", "run_fn"]

_MOST_FAILURES = 5  # without a commit between them


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
        self._host_messages = HostMessages()
        self._failures = 0  # since the last commit

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], Any]]) -> None:
        """Functions that `on_reset` calls."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Is called when the processes have changed, or begin again after a failure."""
        self._host_messages = HostMessages()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: Any) -> None:
        """Horovod's launcher calls it. Here the core knows of changes."""

    def commit(self) -> None:
        """Saves the state, and looks for changes of the processes. All of them call it.

        Raises:
            HostsUpdatedInterrupt: As from `check_host_updates`.
        """
        self.save()
        self._failures = 0
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Looks for changes of the processes. All of them call it.

        Raises:
            HostsUpdatedInterrupt: On all processes, if some come, go, or were lost.
        """
        self._host_messages.check()

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


def run_fn(
    func: Callable[..., Any],
    reset: Callable[[], Any],
    guard: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
) -> Callable[..., Any]:
    """A function that calls `func` again after changes of the processes, and after failures.

    Args:
        func: A function whose first argument is the `State`. It begins where that says.
        reset: Is called by all processes before they begin again.
        guard: A context for their common work.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        begins_again = is_equal = False
        while True:
            try:
                with guard():
                    if begins_again:
                        reset()
                        state.on_reset()
                    if not is_equal:
                        state.sync()
                    return func(state, *args, **kwargs)
            except HostsUpdatedInterrupt as interrupt:
                is_equal = interrupt.skip_sync
            except HorovodInternalError:
                state._failures += 1
                if state._failures == _MOST_FAILURES:
                    raise
                state.restore()
                is_equal = False
            begins_again = True

    return wrapper
