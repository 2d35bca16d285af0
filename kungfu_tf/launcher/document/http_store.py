"""The store of a config server (config_server.py), as its clients see it."""

import dataclasses
import json
from typing import Any

from kungfu_tf.launcher.channels import json_client
from kungfu_tf.launcher.channels.json_client import Refusal
from kungfu_tf.launcher.document import cluster_document
from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.store import Conflict, Missing, Problem

TIMEOUT = 5.0
WAIT = 20.0


class HttpStore:
    """A Store that a config server keeps.

    Args:
        url: The URL of the server.
        token: The token that its requests must carry.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/").removesuffix("/get")
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, *, unless: int | None = None) -> Document:
        if unless is None:
            return _checked(self._call("GET", "/get"))
        path = f"/get?unless={unless}&wait={WAIT:g}"
        return _checked(self._call("GET", path, timeout=TIMEOUT + WAIT))

    def put(self, wanted: Document) -> Document:
        return _checked(self._call("PUT", "/put", wanted.to_json()))

    def reset(self, wanted: Document) -> Document:
        return _checked(self._call("POST", "/reset", wanted.to_json()))

    def clear(self) -> None:
        self._call("POST", "/clear")

    def claim(self, name: str, holder: str, seconds: float) -> str:
        body = {"name": name, "holder": holder, "seconds": seconds}
        answer = self._call("POST", "/claim", body)
        if isinstance(answer, dict) and isinstance(answer.get("holder"), str):
            return str(answer["holder"])
        raise Problem(f"answers with something that names no holder: {json.dumps(answer)[:80]}")

    def _call(self, method: str, path: str, body: Any = None, *, timeout: float = TIMEOUT) -> Any:
        url = self._url + path
        try:
            return json_client.call(
                url, body, timeout=timeout, headers=self._headers, method=method
            )
        except Refusal as refusal:
            raise _meaning(refusal) from None


def _meaning(refusal: Refusal) -> Problem:
    if refusal.status == 401:
        return Problem("refuses the token (KUNGFU_CONFIG_TOKEN)")
    if refusal.status == 404:
        return Missing("has no document")
    if refusal.status == 409:
        return Conflict("has another document by now")
    return refusal


def _checked(content: Any) -> Document:
    try:
        document = cluster_document.parse(content)
    except ValueError as error:
        raise Problem(f"answers with something that is not a document: {error}") from None
    return dataclasses.replace(document, version=document.version or 0)
