"""Five minutes and more of faults at random moments of a job on two hosts."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from tests.fault import random_faults


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="network namespaces need root and iproute2",
)
def test_all_steps_are_made_once_by_all_peers() -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(random_faults.run({"kill": 200, "stop": 50, "partition": 20}, seed))
