"""Peers that no launcher has started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPOSITORY = Path(__file__).parents[1]
# Long enough for any machine, and shorter than they would wait for each other.
PATIENCE = 100


def what_they_say(
    program: str, peers: Sequence[str], environs: Sequence[Mapping[str, str]]
) -> list[str]:
    """`environs`: what is each one's own beside its name."""
    inherited = {name: text for name, text in os.environ.items() if "KUNGFU" not in name}
    common = {"KUNGFU_PEERS": ",".join(peers), "KUNGFU_SECRET": "a secret of the test"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=REPOSITORY,
            env={**inherited, **common, "KUNGFU_SELF": peer, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for peer, environ in zip(peers, environs, strict=True)
    ]
    try:
        return [process.communicate(timeout=PATIENCE)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
