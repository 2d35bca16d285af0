"""`data.shard` deals from one order: an order of each peer's own is an error."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tensorflow as tf
from harness import each
from support import operations_done, raised_by
from tensorflow.python.eager import context as eager

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousSGDOptimizer

JOBS = [{"np": 2}]

keras = tf.keras
NAMES = [f"{number:02d}.txt" for number in range(40)]


def model_of():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile(SynchronousSGDOptimizer(keras.optimizers.SGD(0.01)), "mse")
    return model


def numbers_of(names):
    """A dataset of the numbers in the names."""
    dataset = tf.data.Dataset.from_tensor_slices(names)
    return dataset.map(lambda name: tf.strings.to_number(tf.strings.substr(name, -6, 2))[None] / 40)


def fit(dataset):
    return model_of().fit(dataset.map(lambda x: (x, x)).batch(5), verbose=0)


def even(dataset):
    return kf.data.even(dataset.batch(5))


def assert_names_causes(text: str) -> None:
    for cause in ("list_files", "image_dataset_from_directory", "sort"):
        assert cause in text, text


@contextlib.contextmanager
def no_global_seed():
    """Within it the process is as one that has set none; nothing public takes one back."""
    seed, eager.context()._seed = eager.context()._seed, None
    try:
        yield
    finally:
        eager.context()._seed = seed


@each(how=["list_files", "shuffle"])
def case_without_a_seed_is_an_error_at_once(how):
    with TemporaryDirectory() as folder, no_global_seed():
        for name in NAMES:
            Path(folder, name).touch()
        pattern = f"{folder}/*.txt"
        if how == "list_files":
            dataset = tf.data.Dataset.list_files(pattern)
        else:
            dataset = tf.data.Dataset.range(40).map(lambda x: x + 1).shuffle(40).map(lambda x: x)
        assert_names_causes(raised_by(ValueError, kf.data.shard, dataset))
        mine = kf.data.shard(tf.data.Dataset.list_files(pattern, seed=1))
        both = kf.ops.all_gather([float(name[-6:-4]) for name in mine.as_numpy_iterator()])
        assert sorted(np.ravel(both)) == list(range(40))  # each host's folder has its own name


@each(then=["fit", "even"])
def case_names_in_another_order(then):
    names = NAMES.copy()
    random.Random(kf.rank()).shuffle(names)
    dataset = kf.data.shard(numbers_of(names))
    before = operations_done()
    text = raised_by(ValueError, {"fit": fit, "even": even}[then], dataset)
    assert "that of rank 1" in text
    assert_names_causes(text)
    # Nothing more was said than what those who agree say.
    said = operations_done() - before
    if then == "even":
        even(kf.data.shard(numbers_of(sorted(names))))
        assert operations_done() - before == 2 * said


def case_another_seed():
    dataset = kf.data.shard(numbers_of(NAMES).shuffle(40, seed=1 + kf.rank()))
    assert_names_causes(raised_by(ValueError, even, dataset))


@each(then=["fit", "even"])
def case_one_order_in_folders_of_ones_own(then):
    names = [f"/scratch/{kf.rank()}/{name}" for name in NAMES]
    shared = kf.data.shard(numbers_of(names).shuffle(40, seed=1), shuffle=10).shuffle(10)
    {"fit": fit, "even": even}[then](shared)


def case_who_shards_by_oneself_is_not_asked():
    x = np.full([20, 1], kf.rank(), np.float32)
    fit(tf.data.Dataset.from_tensor_slices(x).shuffle(20))
