"""One turn of an event loop, which handles the events of its files one after another."""

import selectors
from collections.abc import Iterable


def take(
    selector: selectors.BaseSelector, happened: Iterable[tuple[selectors.SelectorKey, int]]
) -> None:
    """Calls the data of each key with its events, as `select` has returned them.

    A handler may close a file whose turn comes later, or register another one in its place. Such a
    file waits for the next turn.
    """
    for key, events in happened:
        now = selector.get_map().get(key.fd)
        if now is not None and now.data is key.data:
            key.data(events)
