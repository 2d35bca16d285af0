"""The variables of torchrun, which other launchers set, too."""

from __future__ import annotations

from collections.abc import Mapping

from kungfu_tf.environments.placement import Placement, number


def detect(environ: Mapping[str, str]) -> Placement | None:
    """The place of a process with RANK and WORLD_SIZE."""
    rank, size = number(environ, "RANK"), number(environ, "WORLD_SIZE")
    if rank is None or size is None:
        return None
    address, port = environ.get("MASTER_ADDR", ""), number(environ, "MASTER_PORT")
    run = environ.get("TORCHELASTIC_RUN_ID")
    return Placement(
        "torchrun or a similar launcher",
        ("RANK", "WORLD_SIZE"),
        rank,
        size,
        f"{run} {address} {port}",
        address,
        0 if port is None else port + 1,  # the port itself is torchrun's own
        local_rank=number(environ, "LOCAL_RANK"),
        local_size=number(environ, "LOCAL_WORLD_SIZE"),
        restarts=number(environ, "TORCHELASTIC_RESTART_COUNT") or 0,
        starts_processes=run is not None,
    )


def mistake(environ: Mapping[str, str]) -> str | None:
    """What is wrong with the variables of a process of several; None if nothing is."""
    size = number(environ, "WORLD_SIZE") or 0
    if size < 2 or number(environ, "RANK") is not None:
        return None
    rank = repr(environ["RANK"]) if "RANK" in environ else "not set"
    return f"WORLD_SIZE is {size}, and RANK is {rank}"
