"""A store of the cluster document in a file."""

import json
import os
from pathlib import Path

from kungfu_tf.launcher.document import cluster_document
from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.memory_store import MemoryStore
from kungfu_tf.launcher.document.store import Problem


class FileStore(MemoryStore):
    """A MemoryStore that replaces a file with each change, and begins with what it has.

    Args:
        file: The file. No other process may change it.

    Raises:
        Problem: If what the file has is no document, or it cannot be read.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        try:
            if file.exists():
                content = json.loads(file.read_bytes())
                self.version = int(content["version"])
                self.document = cluster_document.parse(content) if content.get("workers") else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise Problem(f"has no document: {error}") from None

    def _keep(self, document: Document | None, version: int) -> None:
        none = {"version": version, "runners": [], "workers": []}
        content = none if document is None else document.to_json()
        new = self._file.with_name(self._file.name + ".new")
        try:
            with open(new, "w") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._file)
        except OSError as error:
            raise Problem(f"cannot keep the document: {error.strerror}") from None
