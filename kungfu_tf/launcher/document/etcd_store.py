"""The store of the cluster document in etcd.

A document's version is the revision of its key, so it may grow by more than one. The version in
the text counts for nothing: `etcdctl put` may leave it out.
"""

import dataclasses
import json
import math

from kungfu_tf.launcher.channels.etcd import Etcd, Value
from kungfu_tf.launcher.document import cluster_document, store
from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.store import Conflict, Missing, Problem

WAIT = 20.0


class EtcdStore:
    """A Store in an etcd cluster.

    Args:
        etcd: A client of the cluster.
        job: The name before the job's keys: /job. The document is the value of /job/cluster.
    """

    def __init__(self, etcd: Etcd, job: str) -> None:
        self._etcd = etcd
        self._job = job
        self._key = f"{job}/cluster"
        self._leases: dict[str, str] = {}  # the lease of each name that was claimed

    def get(self, *, unless: int | None = None) -> Document:
        value, revision = self._etcd.read(self._key)
        if unless is not None and value is not None and value.revision == unless:
            self._etcd.wait(self._key, revision, WAIT)
            value, _ = self._etcd.read(self._key)
        return self._parsed(value)

    def put(self, wanted: Document) -> Document:
        now = self.get()
        assert now.version is not None
        store.check_version(wanted, now)
        if wanted.says_as(now):
            return now
        version = self._etcd.replace(self._key, _text(wanted), now.version)
        if version is None:
            raise Conflict(f"has no version {now.version} any more")
        return dataclasses.replace(wanted, version=version)

    def reset(self, wanted: Document) -> Document:
        version = self._etcd.write(self._key, _text(wanted))
        return dataclasses.replace(wanted, version=version)

    def clear(self) -> None:
        self._etcd.remove(self._key)

    def claim(self, name: str, holder: str, seconds: float) -> str:
        lease = self._leases.pop(name, None)
        if seconds == 0:
            if lease is not None:
                self._etcd.revoke(lease)
            return holder
        if lease is None or not self._etcd.keep_alive(lease):
            lease = self._etcd.grant(math.ceil(seconds))
        self._leases[name] = lease
        return self._etcd.create(f"{self._job}/{name}", holder.encode(), lease).decode()

    def _parsed(self, value: Value | None) -> Document:
        if value is None:
            raise Missing(f"has no document: there is no key {self._key}")
        try:
            document = cluster_document.parse(json.loads(value.content))
        except (ValueError, RecursionError) as error:
            raise Problem(f"has something else than a document in {self._key}: {error}") from None
        return dataclasses.replace(document, version=value.revision)


def _text(document: Document) -> bytes:
    content = document.to_json()
    del content["version"]
    return json.dumps(content).encode()
