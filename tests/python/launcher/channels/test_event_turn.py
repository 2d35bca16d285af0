"""A turn of the event loop in which what happens to one file concerns another."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Iterator

import pytest

from kungfu_tf.launcher.channels import event_turn


class Ends:
    """Pipes that are at their end, and the names of those that were called."""

    def __init__(self) -> None:
        self.selector = selectors.PollSelector()
        self.files: dict[str, int] = {}
        self.called: list[str] = []

    def add(self, name: str, then: Callable[[str], None] = lambda _name: None) -> None:
        self.files[name], writer = os.pipe()
        os.close(writer)

        def call(_events: int) -> None:
            self.called.append(name)
            then(name)

        self.selector.register(self.files[name], selectors.EVENT_READ, call)

    def close(self, name: str) -> None:
        self.selector.unregister(self.files[name])
        os.close(self.files.pop(name))

    def turn(self) -> None:
        happened = self.selector.select(0)
        assert len(happened) == len(self.files)
        event_turn.take(self.selector, happened)


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    for name in list(ends.files):
        ends.close(name)
    ends.selector.close()


def other(name: str) -> str:
    return {"a": "b", "b": "a"}[name]


def test_all_are_called(ends: Ends) -> None:
    for name in "ab":
        ends.add(name)
    ends.turn()
    assert sorted(ends.called) == ["a", "b"]


def test_what_was_closed_in_this_turn_is_not_called(ends: Ends) -> None:
    """Whichever comes first."""
    for name in "ab":
        ends.add(name, lambda name: ends.close(other(name)))
    ends.turn()
    assert len(ends.called) == 1


def test_what_was_opened_in_its_place_waits_for_the_next_turn(ends: Ends) -> None:
    def replace(name: str) -> None:
        number = ends.files[other(name)]
        ends.close(other(name))
        ends.add("new")
        assert ends.files["new"] == number

    for name in "ab":
        ends.add(name, replace)
    ends.turn()
    assert len(ends.called) == 1
    assert ends.called != ["new"]


def test_one_that_waits_for_something_else_now_is_called_still(ends: Ends) -> None:
    """As a connection to which there is more to send."""

    def modify(name: str) -> None:
        if len(ends.called) == 1:
            key = ends.selector.get_key(ends.files[other(name)])
            ends.selector.modify(key.fd, selectors.EVENT_READ | selectors.EVENT_WRITE, key.data)

    for name in "ab":
        ends.add(name, modify)
    ends.turn()
    assert sorted(ends.called) == ["a", "b"]
