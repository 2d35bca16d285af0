"""The source of requests for a number of peers besides the peers themselves: a document.

A document is always in the run directory. It may also be served by this job (-builtin-config-port),
or come from another store (-config-server), which store_process.py follows.
"""

import collections
import contextlib
import json
import os
import selectors
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from kungfu_tf.launcher.channels import credentials
from kungfu_tf.launcher.channels.control import Answer
from kungfu_tf.launcher.document import config_server, own_process, store_process
from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.config_server import ConfigServer
from kungfu_tf.launcher.document.file_store import FileStore
from kungfu_tf.launcher.document.memory_store import MemoryStore
from kungfu_tf.launcher.options import given_secrets
from kungfu_tf.launcher.placing.cluster import socket_address
from kungfu_tf.launcher.processes.job import Job

LONGEST_LINE = 64 << 10

HAS_ENDED = "the process that follows the config server has ended"

_GOES_ON = "; the job goes on without it"


class Follow(Protocol):
    """Takes the workers of a document as the new target."""

    def __call__(self, workers: Sequence[str], *, found: bool = False) -> str | None:
        """Returns why it is refused, or None. `found`: the document was there before the job."""


class Source:
    """The document without a server. Like its subclasses for the event loop's thread only."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def ask(self, answer: Answer) -> None:
        """Asks the server at once. `answer` gets the reason of a refusal, or None."""
        answer("there is no config server: kungfu-run -config-server names one")

    def tell(self, members: Sequence[str]) -> None:
        """Writes the peers that take part into the document, unless it asks for another number."""
        document = self._store.document
        if document is not None:
            self._store.put(Document(document.runners, tuple(members), document.version))

    def advance(self) -> None:
        """Does the work that is due. To be called now and then."""

    def close(self) -> None:
        """Ends it."""


class OwnServer(Source):
    """-builtin-config-port: serves the document to others, who may change it.

    Args:
        store: The store with the document.
        port: The port on 127.0.0.1.
        token: The token that each request must carry.
        selector: The selector of the event loop.
        follow: Called with each new document.
        say: Prints a line for the user.

    Raises:
        LaunchError: If the port is not available.
    """

    def __init__(
        self,
        store: MemoryStore,
        port: int,
        token: str,
        selector: selectors.BaseSelector,
        follow: Follow,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(store)
        self._follow = follow
        self._say = say
        self._is_own_change = False
        listener = config_server.listen("127.0.0.1", port)
        self._server = ConfigServer(store, listener, token, selector, self._refuse_to_stop)
        store.watchers.append(self._changed)
        self._changed()

    def ask(self, answer: Answer) -> None:
        document = self._store.document
        answer("there is no document" if document is None else self._follow(document.workers))

    def tell(self, members: Sequence[str]) -> None:
        document = self._store.document
        if document is not None and len(document.workers) == len(members):
            self._is_own_change = True
            super().tell(members)
            self._is_own_change = False

    def advance(self) -> None:
        self._server.advance()

    def close(self) -> None:
        self._server.close()

    def _changed(self) -> None:
        document = self._store.document
        if document is not None and not self._is_own_change:
            _report(self._follow(document.workers), self._say)

    def _refuse_to_stop(self) -> str:
        return "the config server is part of this job, and ends with it"


class OtherServer(Source):
    """-config-server: follows another store, by a process of its own.

    Args:
        store: The store. If it has a document, the other one gets it if it has none.
        url: The URL of the other store.
        secret: The secret for it.
        selector: The selector of the event loop.
        follow: Called with each new document.
        say: Prints a line for the user.
    """

    def __init__(
        self,
        store: MemoryStore,
        url: str,
        secret: str,
        selector: selectors.BaseSelector,
        follow: Follow,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(store)
        self._url = url
        self._follow = follow
        self._say = say
        self._selector = selector
        self._seen: int | None = None  # the version of the last document
        self._found: int | None = None  # the version of the document that was there before the job
        self._answers: collections.deque[Answer] = collections.deque()
        self._received = b""
        self._process = own_process.start(
            store_process.__name__, url, secret=secret, environ=os.environ
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        for pipe in (self._input, self._output):
            os.set_blocking(pipe.fileno(), False)
        selector.register(self._output, selectors.EVENT_READ, self._read)
        document = store.document
        self._command(first=None if document is None else document.to_json())

    @property
    def has_ended(self) -> bool:
        """Whether the process that follows the server has ended."""
        return self._output.closed

    def ask(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._command(ask=True)

    def tell(self, members: Sequence[str]) -> None:
        super().tell(members)
        if self._seen is not None:
            self._command(members=list(members), seen=self._seen)
        elif self._store.document is not None:
            self._command(first=self._store.document.to_json())

    def close(self) -> None:
        self._hang_up("the job is ending")
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)

    def _hang_up(self, why: str) -> None:
        if not self._output.closed:
            self._selector.unregister(self._output)
            self._output.close()
            self._input.close()
        while self._answers:
            self._answers.popleft()(why)

    def _command(self, **command: Any) -> None:
        line = json.dumps(command).encode() + b"\n"
        if self._output.closed or _write(self._input.fileno(), line) < len(line):
            self._hang_up(HAS_ENDED)

    def _read(self, _events: int) -> None:
        data = self._output.read(LONGEST_LINE)
        if data is None:
            return
        if not data:
            if self._store.document is not None:
                self._say(f"{HAS_ENDED}{_GOES_ON}")
            self._hang_up(HAS_ENDED)
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, heard: dict[str, Any]) -> None:
        server = f"the config server {self._url}"
        if self._seen is None:
            self._found = heard.get("version")
        self._seen = heard.get("own", heard.get("version", self._seen))
        if "trouble" in heard:
            then = _GOES_ON if self._store.document else ""
            self._say(f"{server} {heard['trouble']}{then}")
        elif "well" in heard:
            self._say(f"{server} answers again")
        elif "refused" in heard:
            self._answers.popleft()(f"{server} {heard['refused']}")
        elif "answer" in heard:
            self._answers.popleft()(self._followed(heard["answer"]))
        elif "workers" in heard:
            _report(self._followed(heard["workers"]), self._say)

    def _followed(self, workers: Sequence[str]) -> str | None:
        return self._follow(workers, found=self._seen == self._found)


def choose(
    job: Job,
    selector: selectors.BaseSelector,
    follow: Follow,
    say: Callable[[str], None],
) -> Source:
    """The source that a job's flags ask for.

    Raises:
        LaunchError: If there is no usable token, or the port is not available.
    """
    options, cluster = job.options, job.cluster
    store = FileStore(Path(job.directory.cluster))
    runners = tuple(socket_address(host.address, options.runner_port) for host in cluster.hosts)
    workers = tuple(str(peer) for peer in cluster.peers)
    store.reset(Document(runners, workers, max(0, options.init_version)))
    if options.config_server is not None:
        secret = given_secrets.of_store(options.config_server, job.config_token)
        return OtherServer(store, options.config_server, secret, selector, follow, say)
    port = options.builtin_config_port
    if port is None:
        return Source(store)
    own, named = given_secrets.usable(job.config_token), "KUNGFU_CONFIG_TOKEN"
    if own is None:
        own, named = credentials.new_token(job.directory.config_token), job.directory.config_token
    source = OwnServer(store, port, own, selector, follow, say)
    say(f"config server: http://127.0.0.1:{port}, token in {named}")
    return source


def _report(refusal: str | None, say: Callable[[str], None]) -> None:
    if refusal is not None:
        say(f"the config server's document is not followed: {refusal}")


def _write(descriptor: int, line: bytes) -> int:
    try:
        return os.write(descriptor, line)
    except OSError:
        return 0
