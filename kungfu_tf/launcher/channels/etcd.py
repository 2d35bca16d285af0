"""Keys, values and leases of etcd, through its gateway of JSON over HTTP.

Keys and values are in base64 there. Numbers of 64 bits are texts, and fields that are 0 or empty
are left out.
"""

import base64
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kungfu_tf.launcher.channels import json_client
from kungfu_tf.launcher.channels.json_client import Headers, Problem, Refusal

TIMEOUT = 5.0

_UNAUTHENTICATED = 16  # gRPC's code: the token is too old, or of before a restart of etcd


class Value(NamedTuple):
    """The value of a key, and the revision of the store in which it was written."""

    content: bytes
    revision: int


class Etcd:
    """A client of an etcd cluster. Several threads may use it.

    Args:
        members: The URLs of its members. They are tried in turn until one answers.
        user: The user; None: etcd needs none.
        password: The password of the user.
    """

    def __init__(self, members: Sequence[str], user: str | None, password: str) -> None:
        self._members = members
        self._at = 0  # the member to ask first
        self._user = user
        self._password = password
        self._token: str | None = None

    def read(self, key: str) -> tuple[Value | None, int]:
        """The value of a key, None if there is none, and the revision of the whole store."""
        with _sense():
            answer = self._call("/v3/kv/range", {"key": _coded(key)})
            found = answer.get("kvs", [])
            value = Value(_decoded(found[0]), int(found[0]["mod_revision"])) if found else None
            return value, _revision(answer)

    def write(self, key: str, content: bytes) -> int:
        """Writes a value. Returns its revision."""
        with _sense():
            body = {"key": _coded(key), "value": _coded(content)}
            return _revision(self._call("/v3/kv/put", body))

    def replace(self, key: str, content: bytes, revision: int) -> int | None:
        """Replaces the value of this revision. Returns the new one; None: it has changed."""
        with _sense():
            body = {
                "compare": [{"key": _coded(key), "target": "MOD", "mod_revision": str(revision)}],
                "success": [{"request_put": {"key": _coded(key), "value": _coded(content)}}],
            }
            answer = self._call("/v3/kv/txn", body)
            return _revision(answer) if answer.get("succeeded") else None

    def remove(self, key: str) -> None:
        """Removes a key, if it is there."""
        self._call("/v3/kv/deleterange", {"key": _coded(key)})

    def create(self, key: str, content: bytes, lease: str) -> bytes:
        """Writes a value that ends with a lease, unless there is one. Returns the present one."""
        with _sense():
            body = {
                "compare": [{"key": _coded(key), "target": "CREATE", "create_revision": "0"}],
                "success": [
                    {"request_put": {"key": _coded(key), "value": _coded(content), "lease": lease}}
                ],
                "failure": [{"request_range": {"key": _coded(key)}}],
            }
            answer = self._call("/v3/kv/txn", body)
            if answer.get("succeeded"):
                return content
            return _decoded(answer["responses"][0]["response_range"]["kvs"][0])

    def grant(self, seconds: int) -> str:
        """Returns a new lease, which ends after so long unless it is kept alive."""
        with _sense():
            return str(self._call("/v3/lease/grant", {"TTL": str(seconds)})["ID"])

    def keep_alive(self, lease: str) -> bool:
        """Begins the time of a lease anew. Returns whether it had not ended."""
        with _sense():
            answer = self._call("/v3/lease/keepalive", {"ID": lease})["result"]
            return int(answer.get("TTL", 0)) > 0

    def revoke(self, lease: str) -> None:
        """Ends a lease, and removes its keys."""
        self._call("/v3/lease/revoke", {"ID": lease})

    def wait(self, key: str, after: int, seconds: float) -> None:
        """Returns as soon as a key has changed after this revision, or after so long."""
        body = {"create_request": {"key": _coded(key), "start_revision": str(after + 1)}}
        with _sense():
            for answer in self._ask("/v3/watch", body, seconds):
                told = answer["result"]
                # Etcd may have forgotten what was at that revision.
                if told.get("events") or told.get("canceled"):
                    return

    def _call(self, path: str, body: Any) -> Any:
        return next(self._ask(path, body, TIMEOUT))

    def _ask(self, path: str, body: Any, seconds: float) -> Iterator[Any]:
        """Asks as the user, whose token etcd may have forgotten."""
        try:
            yield from self._ask_members(path, body, seconds, self._authorization())
        except Refusal as refusal:
            if self._user is None or _code(refusal) != _UNAUTHENTICATED:
                raise Problem(f"refuses: {_text(refusal)}") from None
            self._token = None
            yield from self._ask_members(path, body, seconds, self._authorization())

    def _authorization(self) -> Headers:
        if self._user is None:
            return {}
        if (token := self._token) is None:
            token = self._token = self._authenticate(self._user)
        return {"Authorization": token}

    def _authenticate(self, user: str) -> str:
        """Returns a token for the user."""
        body = {"name": user, "password": self._password}
        try:
            answer = next(self._ask_members("/v3/auth/authenticate", body, TIMEOUT, {}))
        except Refusal as refusal:
            text = f"refuses the user '{user}' or its password (KUNGFU_CONFIG_TOKEN)"
            raise Problem(f"{text}: {_text(refusal)}") from None
        return str(answer["token"])

    def _ask_members(self, path: str, body: Any, seconds: float, headers: Headers) -> Iterator[Any]:
        """Asks the member that has answered last, and the others if it is silent."""
        problem = Problem(f"does not answer within {seconds:g} s")
        for _ in self._members:
            at = self._at
            url = self._members[at] + path
            answers = json_client.stream(url, body, timeout=seconds, headers=headers)
            try:
                first = next(answers, None)
            except Refusal:
                raise
            except Problem as found:
                problem = found
            else:
                if first is not None:
                    yield first
                    yield from answers
                    return
            self._at = (at + 1) % len(self._members)
        raise problem


@contextlib.contextmanager
def _sense() -> Iterator[None]:
    """Turns answers that etcd does not give into Problem."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Problem(f"does not answer as etcd does: {error!r:.80}") from None


def _coded(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def _decoded(found: Any) -> bytes:
    return base64.b64decode(found.get("value", ""))


def _revision(answer: Any) -> int:
    return int(answer["header"]["revision"])


def _code(refusal: Refusal) -> int | None:
    content = refusal.content
    return content.get("code") if isinstance(content, dict) else None


def _text(refusal: Refusal) -> str:
    content = refusal.content
    return str(content.get("message", refusal))[:200] if isinstance(content, dict) else str(refusal)
