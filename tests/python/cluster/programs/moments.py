"""Moments of an exchange that no callback sees: a thread looks at the counters of the core."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import kungfu_tf as kf
from kungfu_tf.native import libraries
from kungfu_tf.upstream import generations

PHASES = ("bucket", "complete", "voted", "going over")


def moment(phase: str, method: str, optimizer: Any) -> Callable[[], bool]:
    """Whether it has come, in the step that begins."""
    if phase == "going over":
        size = kf.size()
        return lambda: kf.size() < size
    names = operations_of(method, optimizer)
    vote = f"kungfu/all have {names[0]}"
    name = {"bucket": names[0], "complete": names[-1], "voted": vote}[phase]
    before = libraries.completed(name)
    return lambda: libraries.completed(name) > before


def operations_of(method: str, optimizer: Any) -> list[str]:
    """The names of those of an update, in their order. There was an update before."""
    [algorithm] = generations.algorithms_of(optimizer)
    kind = "model" if method == "SMA" else "gradients"
    names = (f"{algorithm.name}/{kind}/{i}" for i in itertools.count())
    return list(itertools.takewhile(libraries.completed, names))


def call_when(has_come: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    def watch() -> None:
        while not has_come():
            time.sleep(0)
        act()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread
