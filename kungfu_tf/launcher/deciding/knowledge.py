"""What the runners of a job know when the one that has led it is gone."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass
class Knowledge:
    """The newest list of peers, and the ends of peers.

    Attributes:
        version: The version of the newest list.
        peers: The list; empty: that with which the job has started.
        ended: The peers that have ended: their exit codes, and whether their runner had asked them.
    """

    version: int = 0
    peers: Sequence[str] = ()
    ended: dict[int, tuple[int, bool]] = dataclasses.field(default_factory=dict)

    def hear(self, version: int, peers: Sequence[str]) -> None:
        """A list of peers that may be newer."""
        if version > self.version:
            self.version, self.peers = version, peers
