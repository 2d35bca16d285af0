"""A Keras training that grows to another host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.fault.elastic import two_hosts

if TYPE_CHECKING:
    from tests.fault.conftest import Jobs

# One peer trains until there are four, and these make some more steps.
PROGRAM = """
import numpy as np
import tensorflow as tf
import kungfu_tf as kf
keras = tf.keras
class Ends(keras.callbacks.Callback):
    together = 0
    def on_train_batch_end(self, batch, logs=None):
        self.together += kf.size() == 4
        self.model.stop_training = self.together == 5
x = np.random.default_rng(1).normal(size=(96, 3))
model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
model.compile(kf.optimizers.SynchronousSGDOptimizer(optimizer), "mse")
callbacks = [kf.callbacks.ElasticCallback("1:2,4:1"), Ends()]
arguments = {"batch_size": 4, "epochs": 10**6, "verbose": 0, "callbacks": callbacks}
kf.elastic.fit(model, x, y=x[:, :1], **arguments)
assert kf.ops.consensus(np.concatenate([w.ravel() for w in model.get_weights()]))
print("ok", kf.rank(), "of", kf.size(), "after", callbacks[1].together, flush=True)
"""


def test_newcomers_on_another_host_train_on_with_the_others(kungfu_run: Jobs) -> None:
    jobs = two_hosts(kungfu_run, 1, PROGRAM, CUDA_VISIBLE_DEVICES="")
    for job, ranks in zip(jobs, ("01", "23"), strict=True):
        assert job.wait() == 0, job.err
        assert sorted(re.findall(r" ok (\d) of 4 after 5$", job.out, re.M)) == list(ranks), job.out
