"""Programs and command lines of jobs that change their size. Without TensorFlow they are fast."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests import ports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fault.conftest import Jobs, Launch

PYTHON = (sys.executable, "-c")
WATCH = ("-w", "-H", "127.0.0.1:4")
SECRET = "s" * 32

# Goes through the sizes of PLAN, one membership each.
PROGRAM = """
import os, sys
import kungfu_tf as kf
def go_over(size):
    if not kf.resize(n=size):
        return
    try:
        kf.barrier()
    except kf.errors.AbortedError as error:
        print("detached:", kf.detached(), kf.rank(), kf.size(), kf.local_rank(), error, flush=True)
        sys.exit()
    print("membership", kf.membership_version(), "rank", kf.rank(), "of", kf.size(), flush=True)
if os.environ["KUNGFU_MEMBERSHIP"] == "joining":
    go_over(None)
while kf.membership_version() < len(PLAN):
    kf.barrier()
    go_over(PLAN[kf.membership_version()])
"""


def two_hosts(
    kungfu_run: Jobs,
    np: int,
    program: str,
    *more: str,
    of_the_first: Mapping[str, str] | None = None,
    **environ: str,
) -> list[Launch]:
    """The same command on each of two hosts that have two slots each.

    `of_the_first`: what its environment has beside.
    """
    _of_runner, first, *_, last = ports.take(10)
    words = (
        "-w",
        "-np",
        str(np),
        "-H",
        "127.0.0.1:2,127.0.0.2:2",
        "-port-range",
        f"{first}-{last}",
    )
    common = {"KUNGFU_SECRET": SECRET, **environ}
    return [
        kungfu_run(*(*words, *more, "-self", here, *PYTHON, program), **{**common, **own})
        for here, own in (("127.0.0.1", of_the_first or {}), ("127.0.0.2", {}))
    ]
