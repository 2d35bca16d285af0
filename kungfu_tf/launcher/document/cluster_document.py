"""The cluster document: the runners and the workers of a job, in KungFu's form, and its version.

{"version": 3, "runners": ["10.0.0.1:9999"], "workers": ["10.0.0.1:10000", "10.0.0.1:10001"]}
"""

import dataclasses
import re
from typing import Any

MOST_MEMBERS = 4096

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):([0-9]{1,5})")


@dataclasses.dataclass(frozen=True)
class Document:
    """One state of the cluster.

    Attributes:
        runners: The addresses of the runners.
        workers: The addresses of the workers.
        version: Its version. In a document to be written: the version that it replaces; None: any.
    """

    runners: tuple[str, ...]
    workers: tuple[str, ...]
    version: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "runners": list(self.runners),
            "workers": list(self.workers),
        }

    def says_as(self, other: "Document") -> bool:
        """Whether the other one has the same content, perhaps in another version."""
        return (self.runners, self.workers) == (other.runners, other.workers)


def parse(content: Any) -> Document:
    """Reads a document from the JSON of a client or a store.

    Raises:
        ValueError: If it is not a document. It names the fault.
    """
    if not isinstance(content, dict):
        raise ValueError('a document is an object: {"runners": [...], "workers": [...]}')
    version = content.get("version")
    if version is not None and (type(version) is not int or not 0 <= version < 1 << 53):
        raise ValueError(f"'version' is {version!r:.100}, not a number from 0")
    workers = _members(content, "workers")
    if not workers:
        raise ValueError("'workers' is empty: a job has at least one")
    return Document(_members(content, "runners"), workers, version)


def _members(content: dict[Any, Any], name: str) -> tuple[str, ...]:
    members = content.get(name, [])
    if not isinstance(members, list) or len(members) > MOST_MEMBERS:
        raise ValueError(f"'{name}' is not a list of at most {MOST_MEMBERS} addresses")
    for member in members:
        match = _ADDRESS.fullmatch(member) if isinstance(member, str) else None
        if match is None or not 1 <= int(match[2]) <= 65535:
            raise ValueError(f"'{name}' has {member!r:.100}, which is not an address and a port")
    if len(set(members)) < len(members):
        raise ValueError(f"'{name}' has an address twice")
    return tuple(members)
