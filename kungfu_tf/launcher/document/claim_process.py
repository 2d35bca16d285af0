"""Claims a name in a store for a runner, again and again, until its standard input ends.

Then it gives the claim up. It writes a JSON value a line:

  {"holder": "10.0.0.1"}   who holds the name; every half second
  {"trouble": "..."}       instead: why nobody knows
"""

import contextlib
import json
import os
import select
import sys
from collections.abc import Sequence

from kungfu_tf.launcher.document import opening, own_process
from kungfu_tf.launcher.document.store import Problem, Store

SECONDS = 4.0  # how long a claim counts that is not made again

_AGAIN = 0.5


def main(words: Sequence[str]) -> None:
    """The process.

    Args:
        words: The URL of the store, the name, and the holder.
    """
    url, name, holder = words
    store = opening.open_store(url, own_process.secret())
    with contextlib.suppress(BrokenPipeError):
        while True:
            line = json.dumps(_claim(store, name, holder))
            os.write(1, line.encode() + b"\n")
            if select.select([sys.stdin], [], [], _AGAIN)[0]:
                break
    with contextlib.suppress(Problem):
        store.claim(name, holder, 0)


def _claim(store: Store, name: str, holder: str) -> dict[str, str]:
    try:
        return {"holder": store.claim(name, holder, SECONDS)}
    except Problem as problem:
        return {"trouble": str(problem)}
