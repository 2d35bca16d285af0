"""PMI and PMIx: MPICH, Intel MPI, and other launchers of MPI programs."""

from __future__ import annotations

from collections.abc import Mapping

from kungfu_tf.environments.placement import Placement, number

_OTHERS_OF_PMIX = {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}  # which tell more


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a process with PMI_RANK and PMI_SIZE, or with PMIX_RANK, which lacks a size."""
    rank, size = number(environ, "PMI_RANK"), number(environ, "PMI_SIZE")
    if rank is not None and size is not None:
        return Placement(
            "MPICH, or another MPI with PMI,",
            ("PMI_RANK", "PMI_SIZE"),
            rank,
            size,
            environ.get("PMI_JOBID", ""),
            local_rank=number(environ, "MPI_LOCALRANKID"),
            local_size=number(environ, "MPI_LOCALNRANKS"),
            starts_processes=True,
        )
    rank = number(environ, "PMIX_RANK")
    if rank is None or _OTHERS_OF_PMIX & environ.keys():
        return None
    namespace = environ.get("PMIX_NAMESPACE", "")
    return Placement("PMIx", ("PMIX_RANK",), rank, 0, namespace, starts_processes=True)
