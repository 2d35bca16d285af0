"""TensorFlow's allocator in programs that the launcher has started, and in others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NEIGHBOURS = {"KUNGFU_SELF": "127.0.0.1:1", "KUNGFU_PEERS": "127.0.0.1:1,127.0.0.1:2"}
ALONE = {"KUNGFU_SELF": "127.0.0.1:1", "KUNGFU_PEERS": "127.0.0.1:1"}
ALONE_SO_FAR = {**ALONE, "KUNGFU_MEMBERSHIP": "elastic"}
TURNED_OFF = {**NEIGHBOURS, "KUNGFU_ARENA_BYTES": "0"}
SMALL = {**NEIGHBOURS, "KUNGFU_ARENA_BYTES": str(1 << 20)}

BEFORE = "import kungfu_tf\nimport tensorflow as tf\n"
AFTER = "import tensorflow as tf\nimport kungfu_tf\n"
FOUND_BEFORE = "import importlib.util, kungfu_tf\nimportlib.util.find_spec('tensorflow')\n" + BEFORE
TOO_LATE = "import tensorflow as tf\ntf.ones([1])\nimport kungfu_tf\n"
SHARED = """
from kungfu_tf.native import libraries
tensors = [tf.ones([100000]) for _ in range(10)]
print("shared:", libraries.statistics()["shared_bytes"] // 400000)
assert all(float(tf.reduce_sum(tensor)) == 100000 for tensor in tensors)
"""


@pytest.mark.parametrize(
    ("imports", "environment", "shared"),
    [
        (BEFORE, NEIGHBOURS, 10),
        (AFTER, NEIGHBOURS, 10),
        (FOUND_BEFORE, NEIGHBOURS, 10),
        (TOO_LATE, NEIGHBOURS, 0),
        (BEFORE, SMALL, 2),
        (BEFORE, TURNED_OFF, 0),
        (BEFORE, ALONE, 0),
        (BEFORE, ALONE_SO_FAR, 10),
    ],
    ids=["before", "after", "found before", "too late", "full", "turned off", "alone", "so far"],
)
def test_where_tensors_lie(imports: str, environment: dict[str, str], shared: int) -> None:
    result = subprocess.run(
        [sys.executable, "-c", imports + SHARED],
        env={**os.environ, **environment, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"shared: {shared}\n"
    assert ("import kungfu_tf earlier" in result.stderr) == (imports == TOO_LATE)


def test_a_library_that_cannot_be_loaded_is_no_error_of_the_import() -> None:
    broken = """
import kungfu_tf
from kungfu_tf import errors
from kungfu_tf.native import libraries, sharing
def share_tensors():
    raise errors.LibraryError("it is broken")
libraries.share_tensors = share_tensors
import tensorflow as tf
sharing.begin()  # as where TensorFlow has been imported before
print(tf.__version__)
"""
    result = subprocess.run(
        [sys.executable, "-c", broken],
        env={**os.environ, **NEIGHBOURS, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout
    assert result.stderr.count("it is broken") == 2
