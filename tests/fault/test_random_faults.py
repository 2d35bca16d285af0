"""Minutes of faults at random moments; `python -m tests.fault.random_faults` goes on for longer."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from tests.fault import random_faults


@pytest.mark.exhaustive
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="network namespaces need root and iproute2",
)
def test_all_steps_are_made_once_by_all_peers() -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(random_faults.run({"kill": 30, "stop": 5, "partition": 3}, seed))
