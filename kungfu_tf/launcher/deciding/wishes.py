"""The addresses for which a document of the job wishes newcomers."""

from collections.abc import Iterable, Mapping, Sequence


class Wishes:
    """The newcomers that were started for addresses in a document.

    A newcomer gets an address of its own, by which the job then names it in the document. Until the
    document has that one, both mean the same peer.
    """

    def __init__(self) -> None:
        self._newcomers: dict[str, int] = {}  # by the wished addresses
        self._told: set[str] = set()

    def started(self, wish: str, number: int) -> None:
        """A newcomer was started for a wished address."""
        self._newcomers[wish] = number

    def told(self, names: Sequence[str]) -> None:
        """The document was told that these peers take part."""
        self._told = set(names)

    def forget_written(self, workers: Sequence[str], names: Mapping[int, str]) -> None:
        """Forgets an address once the document names the peer that was started for it.

        Args:
            workers: The addresses in the document.
            names: The addresses of peers, by their numbers.
        """
        written = self._told.intersection(workers)
        newcomers = self._newcomers.items()
        self._newcomers = {w: n for w, n in newcomers if names.get(n) not in written}

    def known(self, names: Mapping[int, str], engaged: Iterable[int]) -> dict[str, int]:
        """The numbers of present and coming peers, by their own and by their wished addresses.

        Args:
            names: As for `forget_written`.
            engaged: The numbers of these peers.
        """
        among = set(engaged)
        known = self._newcomers | {name: number for number, name in names.items()}
        return {name: number for name, number in known.items() if number in among}
