"""A program for KungFu and TensorFlow 2: peers come and go while it trains.

kungfu-run -w -np 1 -H 127.0.0.1:2 python tf2_elastic.py
"""

import numpy as np
import tensorflow as tf
from kungfu.python import current_cluster_size, current_rank, propose_new_size
from kungfu.python.elastic_state import ElasticContext, ElasticState
from kungfu.tensorflow.initializer import broadcast_variables
from kungfu.tensorflow.ops import all_reduce
from kungfu.tensorflow.optimizers import SynchronousSGDOptimizer

MAX_STEP = 10**6

random = np.random.RandomState(1)
x_train = random.normal(size=(256, 8)).astype("float32")
y_train = x_train.sum(axis=1, keepdims=True)

weights = tf.Variable(tf.zeros([8, 1]), name="weights")
optimizer = SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.05))


@tf.function
def training_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))
    optimizer.apply_gradients(zip(tape.gradient(loss, [weights]), [weights], strict=True))
    return loss


def batch_of(step):
    begin = (step * 32 + current_rank() * 16) % 240
    return x_train[begin : begin + 16], y_train[begin : begin + 16]


state = ElasticState(MAX_STEP)
sizes = []
last_steps = 0
while not state.stopped() and last_steps < 10:
    with ElasticContext(state) as should_sync:
        if should_sync:
            broadcast_variables([weights])
            broadcast_variables(optimizer.variables())
            sizes.append(current_cluster_size())
        training_step(*batch_of(state._progress))
        if sizes[-1] == 2:
            assert np.all(all_reduce(weights, "max") == all_reduce(weights, "min"))
        if current_rank() == 0 and len(sizes) < 3:
            propose_new_size(3 - sizes[-1])
        last_steps += len(sizes) == 3
error = tf.reduce_mean(tf.square(tf.matmul(x_train, weights) - y_train))
print(f"{state.stop_reason()} {sizes}")
print(f"accuracy: {max(0, 1 - error):f}")
