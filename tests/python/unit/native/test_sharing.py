"""TensorFlow's allocator in programs that the launcher has started, and in others."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

NEIGHBOURS = {"KUNGFU_SELF": "127.0.0.1:1", "KUNGFU_PEERS": "127.0.0.1:1,127.0.0.1:2"}
ALONE = {"KUNGFU_SELF": "127.0.0.1:1", "KUNGFU_PEERS": "127.0.0.1:1"}
ALONE_SO_FAR = {**ALONE, "KUNGFU_MEMBERSHIP": "elastic"}
TURNED_OFF = {**NEIGHBOURS, "KUNGFU_ARENA_BYTES": "0"}
SMALL = {**NEIGHBOURS, "KUNGFU_ARENA_BYTES": str(1 << 20)}

SHARED = """
import kungfu_tf
import tensorflow as tf
from kungfu_tf.native import libraries
tensors = [tf.ones([100000]) for _ in range(10)]
print("shared:", libraries.statistics()["shared_bytes"] // 400000, flush=True)
assert all(float(tf.reduce_sum(tensor)) == 100000 for tensor in tensors)
"""
# Importing TensorFlow takes seconds, so this is done once for all environments.
AFTER = f"""
import os, json, sys
import tensorflow as tf
for environment in json.loads(sys.argv[1]):
    if os.fork() == 0:
        os.environ.update(environment)
        exec({SHARED!r})
        break
    assert os.wait()[1] == 0
"""
FOUND = "import importlib.util, kungfu_tf\nimportlib.util.find_spec('tensorflow')\n"
TOO_LATE = "import tensorflow as tf\ntf.ones([1])\n"


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **NEIGHBOURS, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.parametrize(
    ("imports", "shared"),
    [("", 10), (FOUND, 10), (TOO_LATE, 0)],
    ids=["before", "found before", "too late"],
)
def test_where_tensors_lie(imports: str, shared: int) -> None:
    result = run(imports + SHARED)
    assert result.stdout == f"shared: {shared}\n"
    assert ("import kungfu_tf earlier" in result.stderr) == (imports == TOO_LATE)


def test_where_tensors_lie_in_each_environment() -> None:
    """Of those who import kungfu_tf after TensorFlow."""
    expected = [(NEIGHBOURS, 10), (SMALL, 2), (TURNED_OFF, 0), (ALONE, 0), (ALONE_SO_FAR, 10)]
    result = run(AFTER, json.dumps([environment for environment, _ in expected]))
    found = [int(line.removeprefix("shared: ")) for line in result.stdout.splitlines()]
    assert found == [shared for _, shared in expected], result.stderr
    assert "import kungfu_tf earlier" not in result.stderr


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
    result = run(broken)
    assert result.stdout
    assert result.stderr.count("it is broken") == 2
