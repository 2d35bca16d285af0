"""Tells in which sessions all peers take part."""

from __future__ import annotations

from typing import Any

from kungfu_tf import context, peer
from kungfu_tf.replicas import gates
from kungfu_tf.upstream.hook import Hook


def is_private() -> bool:
    """Whether this peer works without the others."""
    return peer.is_single_process() or context.current().is_private


def is_shared(graph: Any, hooks: list[Any]) -> bool:
    """Whether all peers take part in a session of `graph`."""
    return not is_private() and bool(gates.gates_of(graph) or has_ours(hooks))


def has_ours(hooks: Any) -> bool:
    """Whether one of our hooks is among them."""
    return any(isinstance(hook, Hook) for hook in hooks or [])
