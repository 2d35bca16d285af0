"""The nodes that Ray is about to lose."""

from __future__ import annotations

from collections.abc import Container

import ray


def nodes() -> Container[str]:
    """The ids of nodes that are preempted, or drained by `ray drain-node` or an autoscaler.

    Ray has no public function for that. Ray Train asks in the same way.
    """
    state = getattr(ray._private.state, "state", None)
    ask = getattr(state, "get_draining_nodes", None)
    return (ask and ask()) or ()
