"""What two peers have trained is saved by one of them, and opened: by three, and without us.

The program of the two is saves.py.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import saves
import tensorflow as tf
import training
from harness import Skip, each, exhaustive

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 3, "env": {"KUNGFU_COLLECTIVE_TIMEOUT": "180"}}]
TIMEOUT = 200

OPENS = """
import sys
sys.modules["kungfu_tf"] = None  # importing it is an error
from pathlib import Path
import numpy as np, tensorflow as tf
keras = tf.keras
keras.backend.set_floatx("float64")
folder = Path(sys.argv[1])
x = np.ones((2, 6))
expected = list(np.load(folder / "values.npz").values())
[predicted] = np.load(folder / "predicted.npz").values()

def check(model, has_state=True):
    state = model.optimizer.variables
    state = (state() if callable(state) else state) if has_state else []
    assert type(model.optimizer) is keras.optimizers.Adam
    values = [*model.get_weights(), *[np.array(v) for v in state]]
    assert not has_state or len(values) == len(expected)
    for value, wanted in zip(values, expected):
        np.testing.assert_array_equal(value, wanted)
    np.testing.assert_allclose(model(x), predicted)

model = keras.models.load_model(folder / "model.keras")
check(model)
model = keras.models.load_model(folder / "model.h5")
check(model, has_state=sys.argv[2] == "2")  # Keras 3 does not find it in such a file
model = keras.models.clone_model(model)
model.compile(keras.optimizers.Adam(), "mse")
model.load_weights(folder / "model.weights.h5")
check(model, has_state=False)
model = keras.models.clone_model(model)
model.compile(keras.optimizers.Adam(), "mse")
model.optimizer.build(model.trainable_variables)
checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
checkpoint.read(str(folder / "checkpoint")).assert_existing_objects_matched()
check(model)
exported = tf.saved_model.load(str(folder / "exported"))
np.testing.assert_allclose(exported.serve(x), predicted)
"""


def run(*command):
    """A program that is not of this job."""
    environment = training.of_no_job()
    done = subprocess.run(
        [sys.executable, *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT - 30,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@functools.cache
def saved() -> Path:
    """The folder with what two peers have saved."""
    folder = Path(tempfile.gettempdir()) / f"kungfu-saved-{os.environ['KUNGFU_JOB_ID']}"
    try:
        if kf.rank() == 0:
            folder.mkdir()
            run("-m", "kungfu_tf.launcher", "-np", "2", sys.executable, saves.__file__, str(folder))
    finally:
        kf.barrier()
    return folder


def case_opens_where_kungfu_tf_is_not_installed():
    folder = saved()
    if kf.rank() == 0:
        run("-c", OPENS, str(folder), "3" if training.is_keras_3() else "2")


@each(kind=["model.keras", "model.h5", "weights", "checkpoint"], who=["all", "root"])
@exhaustive(kind=["model.keras", "checkpoint"])
def case_training_goes_on_with_more_peers(kind, who):
    """As it does in a single process, whose batches are theirs together. One peer may open it."""
    if kind == "model.h5" and training.is_keras_3():
        raise Skip("Keras 3 cannot train what it opens from an .h5 file")
    data = tf.data.Dataset.from_tensor_slices(saves.samples())
    single = opened(kind)
    saves.fit(single, data, saves.BATCH * kf.size())
    model = opened(kind) if who == "all" or kf.rank() == 0 else saves.new_model(seed=7)
    optimizer = SynchronousSGDOptimizer(model.optimizer)
    assert optimizer is model.optimizer
    saves.fit(model, kf.data.shard(data), saves.BATCH)
    steps = 4 if kind == "weights" else 10  # 6 were made by the two
    assert int(generations.native(optimizer.iterations)) == steps
    for value, expected in zip(saves.values_of(model), saves.values_of(single), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)


def opened(kind):
    """What was saved, with the optimizer that one gets of it."""
    folder = saved()
    if kind.startswith("model"):
        return saves.keras.models.load_model(folder / kind)
    model = saves.new_model(seed=5)
    if kind == "weights":
        model.load_weights(folder / "model.weights.h5")
    else:
        checkpoint = saves.checkpoint_of(model)
        checkpoint.read(str(folder / "checkpoint")).assert_existing_objects_matched()
    return model


def case_nothing_is_left():
    """Of what the cases have saved."""
    folder = saved()
    kf.barrier()
    if kf.rank() == 0:
        shutil.rmtree(folder)
