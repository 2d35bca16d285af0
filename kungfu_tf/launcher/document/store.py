"""The store of the cluster document: what each kind of store can do.

kind             class         kept by
memory           MemoryStore   a process of ours
a file           FileStore     the same, which replaces the file as a whole
a config server  HttpStore     `kungfu-config-server`, or a job with -builtin-config-port
etcd             EtcdStore     the members of an etcd cluster
"""

from typing import Protocol

from kungfu_tf.launcher.channels.json_client import Problem as Problem
from kungfu_tf.launcher.document.cluster_document import Document


class Missing(Problem):
    """The store has no document."""


class Conflict(Problem):
    """Another client has changed the document meanwhile."""


class Store(Protocol):
    """Keeps the newest document. Each change gives it a higher version than all earlier ones.

    A store behind a network answers within some seconds, or raises Problem.
    """

    def get(self, *, unless: int | None = None) -> Document:
        """The document.

        Args:
            unless: A known version. A store behind a network waits up to 20 s for another one.

        Raises:
            Missing: There is none.
            Problem: The store does not answer, or what it has is no document.
        """

    def put(self, wanted: Document) -> Document:
        """Replaces the document. An equal document changes nothing, and its version stays.

        Returns:
            The document, with its version.

        Raises:
            Missing: There is none to replace.
            Conflict: There is another one than the version that `wanted` names.
            Problem: The store does not answer, or cannot keep it.
        """

    def reset(self, wanted: Document) -> Document:
        """Replaces any document, also one that is damaged, or none.

        Returns:
            The document, with its version.

        Raises:
            Problem: The store does not answer, or cannot keep it.
        """

    def clear(self) -> None:
        """Removes the document. Raises Problem as `reset` does."""

    def claim(self, name: str, holder: str, seconds: float) -> str:
        """Makes a holder hold a name from now on, unless another one holds it.

        The claim is over after so long. A holder that lives claims the name again before. One that
        claims it for 0 seconds gives it up.

        Args:
            name: The name, which is a word.
            holder: The holder.
            seconds: How long, at most 60.

        Returns:
            The present holder; `holder` if it has given up.

        Raises:
            Problem: The store does not answer.
        """


def check_version(wanted: Document, now: Document) -> None:
    """Raises Conflict if a document to be written replaces another version than the present one."""
    if wanted.version is not None and wanted.version != now.version:
        raise Conflict(f"has version {now.version} by now, not {wanted.version}")
