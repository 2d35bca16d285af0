"""Open MPI's mpirun."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kungfu_tf.environments.placement import Placement, number


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a process that mpirun has started. Its own host is taken for that of rank 0."""
    rank, size = number(environ, "OMPI_COMM_WORLD_RANK"), number(environ, "OMPI_COMM_WORLD_SIZE")
    if rank is None or size is None:
        return None
    mpirun = re.search(r"tcp://([^,:]+)", environ.get("OMPI_MCA_orte_hnp_uri", ""))
    return Placement(
        "Open MPI",
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        rank,
        size,
        environ.get("OMPI_MCA_orte_precondition_transports") or environ.get("PMIX_NAMESPACE", ""),
        mpirun[1] if mpirun else "",
        local_rank=number(environ, "OMPI_COMM_WORLD_LOCAL_RANK"),
        local_size=number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE"),
        starts_processes=True,
    )
