"""JSON over HTTP, as a client. No redirect is followed: a token is for its server only."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 256 << 10  # bytes of an answer, or of one value of a stream

Headers = Mapping[str, str]


class Problem(Exception):
    """A server has not done what it was asked. The message is a predicate: "does not answer"."""


class Refusal(Problem):
    """An answer with an HTTP status of an error.

    Attributes:
        status: The status.
        content: The JSON of the answer; None if it has none.
    """

    def __init__(self, status: int, reason: str, content: Any) -> None:
        super().__init__(f"answers {status} {reason:.100}")
        self.status = status
        self.content = content


def call(
    url: str, body: Any, *, timeout: float, headers: Headers | None = None, method: str = "POST"
) -> Any:
    """Returns the JSON of the answer.

    Args:
        url: The URL.
        body: What becomes the JSON of the request; None: it has no body.
        timeout: Seconds without any byte after which the server counts as silent.
        headers: More headers.
        method: The method.

    Raises:
        Refusal: The answer is that of an error.
        Problem: There is no answer that makes sense.
    """
    with _problems(), _open(url, body, timeout, headers, method) as answer:
        content = answer.read(LONGEST + 1)
        return _parsed(content)


def stream(url: str, body: Any, *, timeout: float, headers: Headers | None = None) -> Iterator[Any]:
    """Yields one JSON value per line of an answer that goes on, until it ends or is silent.

    For arguments and errors see `call`. Silence ends it without an error.
    """
    with _problems(), _open(url, body, timeout, headers, "POST") as answer:
        while True:
            try:
                line = answer.readline(LONGEST + 1)
            except TimeoutError:
                return
            if not line:
                return
            yield _parsed(line)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        return None


def _open(url: str, body: Any, timeout: float, headers: Headers | None, method: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data, {"Content-Type": "application/json", **(headers or {})}, method=method
    )
    return urllib.request.build_opener(_NoRedirect()).open(request, timeout=timeout)


@contextlib.contextmanager
def _problems() -> Iterator[None]:
    """Turns all errors of a request into Problem."""
    try:
        yield
    except Problem:
        raise
    except urllib.error.HTTPError as error:
        with error:
            raise Refusal(error.code, error.reason, _content(error)) from None
    except (OSError, ValueError) as error:
        raise Problem(f"does not answer: {getattr(error, 'reason', error)}") from None
    except Exception as error:  # http.client's, of a server that speaks something else
        raise Problem(f"does not answer as expected: {error!r:.200}") from None


def _content(error: urllib.error.HTTPError) -> Any:
    try:
        return json.loads(error.read(LONGEST))
    except Exception:
        return None


def _parsed(content: bytes) -> Any:
    if len(content) > LONGEST:
        raise Problem(f"answers with more than {LONGEST} bytes")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise Problem(f"answers with something that is not JSON: {content[:80]!r}") from None
