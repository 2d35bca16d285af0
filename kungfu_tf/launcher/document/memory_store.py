"""A store of the cluster document in the memory of this process."""

import time
from collections.abc import Callable

from kungfu_tf.launcher.document import store
from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.store import Missing


class MemoryStore:
    """A Store that answers at once. Each change makes the version one higher.

    Attributes:
        document: The newest document; None: there is none.
        version: Its version, which also counts when there is none.
        watchers: Called after each change.
    """

    def __init__(self) -> None:
        self.document: Document | None = None
        self.version = -1
        self.watchers: list[Callable[[], None]] = []
        self._claims: dict[str, tuple[str, float]] = {}  # the holder of each name, and until when

    def get(self, *, unless: int | None = None) -> Document:
        del unless
        if self.document is None:
            raise Missing("has no document")
        return self.document

    def put(self, wanted: Document) -> Document:
        now = self.get()
        store.check_version(wanted, now)
        if wanted.says_as(now):
            return now
        return self._set(wanted, self.version + 1)

    def reset(self, wanted: Document) -> Document:
        return self._set(wanted, max(self.version + 1, wanted.version or 0))

    def clear(self) -> None:
        self._change(None, self.version + 1)

    def claim(self, name: str, holder: str, seconds: float) -> str:
        now = time.monotonic()
        held, until = self._claims.get(name, (holder, now))
        if held != holder and until > now:
            return held
        self._claims[name] = holder, now + seconds
        return holder

    def _set(self, wanted: Document, version: int) -> Document:
        document = Document(wanted.runners, wanted.workers, version)
        self._change(document, version)
        return document

    def _change(self, document: Document | None, version: int) -> None:
        """Keeps a document, then announces it. One that cannot be kept is not announced."""
        self._keep(document, version)
        self.document, self.version = document, version
        for watcher in self.watchers:
            watcher()

    def _keep(self, document: Document | None, version: int) -> None:
        """Writes it where it survives this process. Raises Problem if it cannot."""
