"""A process that a worker starts: a peer, which calls the function and sends back its result."""

from __future__ import annotations

from collections.abc import Sequence

from kungfu_tf.function_launch import child
from kungfu_tf.launcher.processes import peer_process


def main(arguments: Sequence[str]) -> int:
    """Arguments: the worker's pid; the descriptors of the function and of its result."""
    parent, function, result = map(int, arguments)
    peer_process.end_with(parent)
    return child.run(function, result)
