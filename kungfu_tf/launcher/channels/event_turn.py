"""A turn of an event loop: what has happened to its files, one after the other."""

import selectors
from collections.abc import Iterable


def take(
    selector: selectors.BaseSelector, happened: Iterable[tuple[selectors.SelectorKey, int]]
) -> None:
    """Calls the data of each key that `select` has returned with the events of its file.

    Not where one of those before has closed the file, or registered another one in its place: what
    has happened to that shows in the next turn.
    """
    for key, events in happened:
        now = selector.get_map().get(key.fd)
        if now is not None and now.data is key.data:
            key.data(events)
