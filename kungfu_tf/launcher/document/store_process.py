"""Follows the store of a cluster document for a runner, as a process of its own.

Its argument is the URL of the store. Both sides write one JSON value a line. The process ends when
its standard input does.

  runner -> process  {"ask": true}                        look at once
                     {"members": [...], "seen": 3}        the workers of today; unless another one
                                                          has changed the version seen
                     {"first": {...}}                     the document to begin with if there is
                                                          none, or null; also first of all
  process -> runner  {"workers": [...], "version": 3}     the document, when it has changed
                     {"own": 3}                           the same, and it is what the runner wanted
                     {"answer": [...], "version": 3}      to a question
                     {"refused": "..."}                   to a question: why there is no answer
                     {"trouble": "..."}                   the store gives no document; said once
                     {"well": true}                       it does again
"""

import contextlib
import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kungfu_tf.launcher.document import cluster_document, opening, own_process
from kungfu_tf.launcher.document.cluster_document import Document
from kungfu_tf.launcher.document.store import Conflict, Missing, Problem, Store

AGAIN = 1.0


def _say(**value: Any) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


class StoreWatch:
    """Two threads use it: one waits for changes of the document, one obeys the runner.

    Args:
        store: The store.
        first: The document that the store gets if it has none; None: it gets none.
    """

    def __init__(self, store: Store, first: Document | None) -> None:
        self._store = store
        self._first = first
        # Held from before a document of the runner's is sent until its version is known.
        self._writing = threading.Lock()
        self._own: int | None = None
        self._unsure: Document | None = None  # one that was sent, until the store has answered
        # The runner's document, which the store may not know yet.
        self._members: dict[str, Any] | None = None

    def run(self) -> None:
        """Reports each change to the runner, without end."""
        said: Document | None = None
        troubled = False
        unless: int | None = None
        while True:
            began = time.monotonic()
            try:
                document = self._get(unless)
            except Problem as problem:
                if not troubled:
                    _say(trouble=str(problem))
                troubled, unless = True, None
                time.sleep(AGAIN)
                continue
            self._first, unless = None, document.version
            if troubled:
                troubled = False
                _say(well=True)
            is_own = self._is_own(document)
            self._tell_members()
            if document != said:
                said = document
                _say(own=unless) if is_own else _say(workers=document.workers, version=unless)
            elif time.monotonic() - began < AGAIN:
                time.sleep(AGAIN)  # a store that answers at once, whatever it is asked

    def obey(self, command: dict[str, Any]) -> None:
        """Carries out the runner's requests."""
        if "ask" in command:
            try:
                document = self._store.get()
                _say(answer=document.workers, version=document.version)
            except Problem as problem:
                _say(refused=str(problem))
            return
        if "first" in command:
            self._first = self._first and _document(command["first"])
            return
        self._members = command
        self._tell_members()

    def _get(self, unless: int | None) -> Document:
        try:
            return self._store.get(unless=unless)
        except Missing:
            if self._first is None:
                raise
            self._write(self._store.reset, self._first)
            return self._store.get()

    def _write(self, write: Callable[[Document], Document], document: Document) -> None:
        """Writes a document of the runner's."""
        with self._writing:
            self._unsure = document
            with contextlib.suppress(Conflict):  # somebody was faster
                self._own = write(document).version
            self._unsure = None

    def _is_own(self, document: Document) -> bool:
        """Whether the runner has written this document."""
        with self._writing:
            if self._unsure is not None and document.says_as(self._unsure):
                self._own, self._unsure = document.version, None
            return document.version == self._own

    def _tell_members(self) -> None:
        """Writes the runner's document once, now or when the store answers again. Any thread."""
        command = self._members
        if command is None:
            return
        try:
            document = self._store.get()
            is_known = document.version == command["seen"] or self._is_own(document)
            if is_known and {*document.workers} != {*command["members"]}:
                told = dataclasses.replace(document, workers=tuple(command["members"]))
                self._write(self._store.put, told)
        except Problem:
            return  # `run` reports it
        if self._members is command:
            self._members = None


def _document(content: Any) -> Document | None:
    return None if content is None else cluster_document.parse(content)


def main(words: Sequence[str]) -> None:
    """The process. `words` has the URL."""
    (url,) = words
    store = opening.open_store(url, own_process.secret())
    commands = iter(sys.stdin.readline, "")
    first = next(commands, None)
    if first is None:
        return
    watch = StoreWatch(store, _document(json.loads(first)["first"]))
    threading.Thread(target=watch.run, daemon=True).start()
    for line in commands:
        watch.obey(json.loads(line))
    os._exit(0)
