"""Who takes part, for programs that kungfu-run has started and that use another system."""

from __future__ import annotations

import json
import os

_peers = os.environ["KUNGFU_PEERS"].split(",")
_self = os.environ["KUNGFU_SELF"]


def rank() -> int:
    return _peers.index(_self)


def size() -> int:
    return len(_peers)


def first() -> tuple[str, int]:
    """Address and port of the first process: nobody else listens there."""
    address, port = _peers[0].rsplit(":", 1)
    return address, int(port)


def configure_tensorflow() -> None:
    """Tells tf.distribute."""
    task = {"type": "worker", "index": rank()}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": _peers}, "task": task})
