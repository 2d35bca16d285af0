"""An Indexed Job of Kubernetes, also within a JobSet."""

from __future__ import annotations

from collections.abc import Mapping

from kungfu_tf.environments.placement import Placement, number


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a pod: Kubernetes tells its index. The manifest sets KUNGFU_SIZE and _LEADER."""
    rank = number(environ, "JOB_COMPLETION_INDEX")
    if rank is None:
        return None
    return Placement(
        "an Indexed Job of Kubernetes",
        ("JOB_COMPLETION_INDEX",),
        rank,
        0,
        environ.get("KUNGFU_LEADER", ""),
        shares_home=False,
    )
