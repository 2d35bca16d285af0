"""How many cores a container may use: the quota of its cgroup, version 1 or 2.

The core does the same in `ops/base/cores.cc`, for a peer that no launcher has started.
"""

from collections.abc import Iterator
from pathlib import Path


def cores(
    own: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """The quota in cores, rounded up; None if there is no quota.

    Args:
        own: The file that lists the cgroups of this process.
        mounted: The folder of the cgroups.
    """
    return min(_quotas(own, mounted), default=None)


def _quotas(own: Path, mounted: Path) -> Iterator[int]:
    """The quotas of the cgroups of the process, and of all that contain them."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = mounted / "cpu" if controllers else mounted
        cgroup = top / path.lstrip("/")
        # A container may see only its own cgroup, at the top, whatever the path says.
        for within in (cgroup, *cgroup.parents):
            if (quota := _quota(within)) is not None:
                yield quota
            if within == top:
                break


def _quota(cgroup: Path) -> int | None:
    """The quota of one cgroup; "max" and -1 mean none."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = map(int, " ".join((cgroup / n).read_text() for n in names).split())
        except (OSError, ValueError):
            continue
        if quota > 0 and period > 0:
            return -(-quota // period)
    return None
