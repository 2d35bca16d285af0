"""A job that survives lost peers refuses operations of neighbours, and goes on with others.

One that may grow refuses them before it has grown.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from support import raised_by

import kungfu_tf as kf

SURVIVE = ["-on-failure", "survive"]
JOBS = [{"np": 2, "flags": SURVIVE}, {"np": 1, "flags": [*SURVIVE, "-w"]}]
NEEDS_KERAS = False


def case_all_of_them():
    operations = {
        "neighbor_all_reduce": lambda: kf.ops.neighbor_all_reduce(1.0, name="x"),
        "neighbor_all_gather": lambda: kf.ops.neighbor_all_gather(1.0, name="x"),
    }
    for kind, function in operations.items():
        text = raised_by(tf.errors.FailedPreconditionError, function)
        assert f"{kind} 'x': with -on-failure survive" in text, text
    text = raised_by(
        tf.errors.FailedPreconditionError,
        lambda: kf.ops.new_window(1.0, topology=kf.topology.ring(), name="x"),
    )
    assert "'window/x/made': with -on-failure survive" in text, text
    np.testing.assert_array_equal(kf.ops.all_reduce(1.0), kf.size())
