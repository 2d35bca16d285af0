"""An Indexed Job of Kubernetes, also within a JobSet."""

from __future__ import annotations

from collections.abc import Mapping

from kungfu_tf.environments.placement import Placement, number


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a pod: Kubernetes tells its index. The manifest tells the rest."""
    rank = number(environ, "JOB_COMPLETION_INDEX")
    if rank is None:
        return None
    leader = environ.get("KUNGFU_LEADER", "")
    return Placement(
        "an Indexed Job of Kubernetes",
        ("JOB_COMPLETION_INDEX",),
        rank,
        0,
        leader,
        shares_home=False,
    )
