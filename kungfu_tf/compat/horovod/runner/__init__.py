"""Functions in several processes of this machine."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kungfu_tf as kf
from kungfu_tf import errors
from kungfu_tf.compat._launched import Launched

__all__ = ["run"]


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Any = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: int | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: int | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: Any = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Calls `func(*args, **kwargs)` in `num_proc` new processes of this machine.

    Arguments that only tune Horovod have no effect. The functions find HOROVOD_RANK, HOROVOD_SIZE
    and the like in their environment.

    Returns:
        The results, in the order of the ranks.

    Raises:
        UnimplementedError: If it names other hosts, or a number of processes that changes.
    """
    count = num_proc if np is None else np
    del start_timeout, ssh_port, ssh_identity_file, disable_cache, output_filename, verbose
    del use_gloo, use_mpi, mpi_args, network_interface, network_interfaces, executable
    bounds = {
        "min_num_proc": min_num_proc if min_num_proc is not None else min_np,
        "max_num_proc": max_num_proc if max_num_proc is not None else max_np,
    }
    refused = {
        **{name: bound for name, bound in bounds.items() if bound != count},
        "slots": slots,
        "reset_limit": reset_limit,
        "cooldown_range": cooldown_range,
        "hosts": hosts,
        "hostfile": hostfile,
        "host_discovery_script": host_discovery_script,
    }
    given = [name for name, value in refused.items() if value is not None]
    if given:
        raise errors.UnimplementedError(
            f"horovod.run: {given[0]} is missing in kungfu_tf.compat, which starts processes of "
            "this machine: kungfu-run -compat horovod starts programs on several"
        )
    call = functools.partial(func, *args, **(kwargs or {}))
    return kf.launch(Launched(_WithoutRank(call, count)), count)


class _WithoutRank:
    """A function of the rank out of one that takes none, and reads it from its environment."""

    def __init__(self, call: Callable[[], Any], count: int) -> None:
        self._call = call
        self._count = count

    def __call__(self, rank: int) -> Any:
        for kind in ("", "LOCAL_"):
            os.environ[f"HOROVOD_{kind}RANK"] = str(rank)
            os.environ[f"HOROVOD_{kind}SIZE"] = str(self._count)
        os.environ.update(HOROVOD_CROSS_RANK="0", HOROVOD_CROSS_SIZE="1")
        os.environ["HOROVOD_HOSTNAME"] = "127.0.0.1"
        return self._call()
