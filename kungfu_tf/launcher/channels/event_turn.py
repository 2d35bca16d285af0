"""A turn of an event loop: it handles the events of its files, one after another."""

import selectors
from collections.abc import Iterable


def take(
    selector: selectors.BaseSelector, happened: Iterable[tuple[selectors.SelectorKey, int]]
) -> None:
    """Calls the data of each key that `select` has returned with the events of its file.

    An earlier handler may have closed a file, or registered another one in its place. Such a file
    waits for the next turn.
    """
    for key, events in happened:
        now = selector.get_map().get(key.fd)
        if now is not None and now.data is key.data:
            key.data(events)
