"""Follows a config server for a runner, as a process of its own: a server or a name may be slow.

It stands alone, without kungfu_tf: `config_client.py URL`, with the token in KUNGFU_CONFIG_TOKEN.
Both sides write one JSON value a line. It ends when its standard input does.

  runner -> client   {"ask": true}                        look at once
                     {"members": [...], "seen": 3}        the workers of today; unless the document
                                                          has changed since the version seen
                     {"first": {...}}                     the document to begin with if there is
                                                          none, or null; also first of all
  client -> runner   {"workers": [...], "version": 3}     the document, when it has changed
                     {"own": 3}                           the same, and it is what the runner wanted
                     {"answer": [...], "version": 3}      to a question
                     {"refused": "..."}                   to a question: why there is no answer
                     {"trouble": "..."}                   the server gives no document; said once
                     {"well": true}                       it does again
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

LONGEST = 256 << 10
TIMEOUT = 5.0
WAIT = 20.0
AGAIN = 1.0


class Problem(Exception):
    """The server gave no document; the message says why."""


class Missing(Problem):
    """The server has no document."""


class Conflict(Problem):
    """Another client has changed the document meanwhile."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, since the token is for this server only."""

    def redirect_request(self, *_arguments: Any) -> None:
        return None


class Client:
    """Requests to a config server."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/").removesuffix("/get")
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirect())

    def get(self, *, unless: int | None = None) -> tuple[list[str], list[str], int]:
        """Runners, workers, version: at once, or when the version is not `unless` any more.

        Raises:
            Problem: There is no document, or no answer that makes sense.
        """
        wait = f"?unless={unless}&wait={WAIT:g}" if unless is not None else ""
        timeout = TIMEOUT + (WAIT if wait else 0)
        return _checked(self._call("GET", "/get" + wait, None, timeout))

    def put(self, route: str, document: Any) -> Any:
        """Returns the server's answer.

        Raises:
            Problem: It refuses, or there is no answer.
        """
        return self._call("PUT" if route == "/put" else "POST", route, document, TIMEOUT)

    def _call(self, method: str, path: str, document: Any, timeout: float) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = None if document is None else json.dumps(document).encode()
        try:
            request = urllib.request.Request(
                self._url + path, data=data, headers=headers, method=method
            )
            with self._opener.open(request, timeout=timeout) as answer:
                body = answer.read(LONGEST + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise _why(error) from None
        except (OSError, ValueError) as error:
            raise Problem(f"does not answer: {getattr(error, 'reason', error)}") from None
        except Exception as error:  # http.client's, of a server that speaks something else
            raise Problem(f"does not answer as a config server does: {error!r:.200}") from None
        if len(body) > LONGEST:
            raise Problem(f"answers with more than {LONGEST} bytes")
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise Problem(f"answers with something that is not JSON: {body[:80]!r}") from None


def _why(error: urllib.error.HTTPError) -> Problem:
    if error.code == 401:
        return Problem("refuses the token (KUNGFU_CONFIG_TOKEN)")
    if error.code == 404:
        return Missing("has no document")
    if error.code == 409:
        return Conflict("has another document by now")
    return Problem(f"answers {error.code} {error.reason:.100}")


def _checked(content: Any) -> tuple[list[str], list[str], int]:
    if isinstance(content, dict):
        runners, workers = content.get("runners", []), content.get("workers")
        version = content.get("version", 0)
        if isinstance(runners, list) and isinstance(workers, list) and type(version) is int:
            return runners, workers, version
    raise Problem(f"answers with something that is not a document: {json.dumps(content)[:80]}")


def _say(**value: Any) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


class ServerWatch:
    """Two threads use it: one waits for changes of the document, one obeys the runner.

    Args:
        client: The client of the server.
        first: The document that the server gets if it has none; None: it gets none.
    """

    def __init__(self, client: Client, first: Any) -> None:
        self._client = client
        self._first = first
        # Held from before a document of the runner's is sent until its version is known.
        self._writing = threading.Lock()
        self._own: int | None = None
        # The runner's document, which the server may not know yet.
        self._members: dict[str, Any] | None = None

    def run(self) -> None:
        """Reports each change to the runner, without end."""
        said: tuple[list[str], int] | None = None
        troubled = False
        unless: int | None = None
        while True:
            began = time.monotonic()
            try:
                try:
                    _, workers, unless = self._client.get(unless=unless)
                except Missing:
                    if self._first is None:
                        raise
                    self._write("/reset", self._first)
                    _, workers, unless = self._client.get()
            except Problem as problem:
                if not troubled:
                    _say(trouble=str(problem))
                troubled, unless = True, None
                time.sleep(AGAIN)
                continue
            self._first = None
            if troubled:
                troubled = False
                _say(well=True)
            self._tell_members()
            if (workers, unless) != said:
                said = (workers, unless)
                with self._writing:
                    is_own = unless == self._own
                _say(own=unless) if is_own else _say(workers=workers, version=unless)
            elif time.monotonic() - began < AGAIN:
                time.sleep(AGAIN)  # a server that answers at once, whatever it is asked

    def obey(self, command: dict[str, Any]) -> None:
        """Carries out the runner's requests."""
        if "ask" in command:
            try:
                _, workers, version = self._client.get()
                _say(answer=workers, version=version)
            except Problem as problem:
                _say(refused=str(problem))
            return
        if "first" in command:
            self._first = self._first and command["first"]
            return
        self._members = command
        self._tell_members()

    def _tell_members(self) -> None:
        """Writes the runner's document once, now or when the server answers again. Any thread."""
        command = self._members
        if command is None:
            return
        try:
            runners, workers, version = self._client.get()
            if version == command["seen"] and set(map(str, workers)) != set(command["members"]):
                document = {"runners": runners, "workers": command["members"], "version": version}
                self._write("/put", document)
        except Conflict:
            pass  # somebody was faster
        except Problem:
            return  # `run` reports it
        if self._members is command:
            self._members = None

    def _write(self, route: str, document: Any) -> None:
        with self._writing:
            _, _, self._own = _checked(self._client.put(route, document))


def main() -> None:
    client = Client(sys.argv[1], os.environ.get("KUNGFU_CONFIG_TOKEN", ""))
    commands = iter(sys.stdin.readline, "")
    first = next(commands, None)
    if first is None:
        return
    watch = ServerWatch(client, json.loads(first)["first"])
    threading.Thread(target=watch.run, daemon=True).start()
    for line in commands:
        watch.obey(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
