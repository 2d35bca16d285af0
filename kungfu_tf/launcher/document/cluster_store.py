"""The cluster document: the runners and the workers of a job, in KungFu's form, and its version.

    {"version": 3, "runners": ["10.0.0.1:9999"], "workers": ["10.0.0.1:10000", "10.0.0.1:10001"]}

It may be kept in a file, which is replaced as a whole. A server that starts again continues with
it.
"""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
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


class Conflict(Exception):
    """Another client has changed the document meanwhile, or there is none."""


def parse(content: Any) -> Document:
    """Reads a document from the JSON of a client or a file.

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


class ClusterStore:
    """The newest document. Each change makes its version one higher.

    Args:
        file: The file that keeps it; None: memory only.

    Raises:
        ValueError: If the file holds no document.
        OSError: If it cannot be read.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.document: Document | None = None
        self.version = -1  # also counts when there is no document
        self.watchers: list[Callable[[], None]] = []
        self._file = file
        if file is not None and file.exists():
            content = json.loads(file.read_bytes())
            self.version = int(content["version"])
            self.document = parse(content) if content.get("workers") else None

    def put(self, wanted: Document) -> Document:
        """Replaces the document. An equal document changes nothing, and its version stays.

        Raises:
            Conflict: If the document is not the one to be replaced.
        """
        now = self.document
        if now is None:
            raise Conflict("there is no document: POST /reset makes one")
        if wanted.version is not None and wanted.version != now.version:
            raise Conflict(f"the version is {now.version} now, not {wanted.version}")
        if (wanted.runners, wanted.workers) == (now.runners, now.workers):
            return now
        return self._set(wanted.runners, wanted.workers, self.version + 1)

    def reset(self, wanted: Document) -> Document:
        """Replaces any document. The new version is higher than all earlier ones."""
        version = max(self.version + 1, wanted.version or 0)
        return self._set(wanted.runners, wanted.workers, version)

    def clear(self) -> None:
        """Removes the document."""
        self._change(None, self.version + 1)

    def _set(self, runners: Sequence[str], workers: Sequence[str], version: int) -> Document:
        document = Document(tuple(runners), tuple(workers), version)
        self._change(document, version)
        return document

    def _change(self, document: Document | None, version: int) -> None:
        """Stores a document, then announces it. One that cannot be stored is not announced."""
        if self._file is not None:
            none = {"version": version, "runners": [], "workers": []}
            content = none if document is None else document.to_json()
            new = self._file.with_name(self._file.name + ".new")
            with open(new, "w") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._file)
        self.document, self.version = document, version
        for watcher in self.watchers:
            watcher()
