"""A job ends before it has taken in the newcomer that it has asked for.

newcomer_ends.py FOLDER: the newcomer heeds notices, as in `fit`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import kungfu_tf as kf
from kungfu_tf.membership import notice

IS_THERE = Path(sys.argv[1]) / "is there"

if kf.joining():
    with notice.heeded():
        IS_THERE.touch()
        time.sleep(100)
else:
    kf.propose_new_size(2)
    deadline = time.monotonic() + 60
    while not IS_THERE.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
