"""A program for KungFu and TensorFlow 2: a GradientTape.

kungfu-run -np 4 python tf2_tape.py
"""

import numpy as np
import tensorflow as tf
from kungfu.python import current_cluster_size, current_rank, run_barrier
from kungfu.tensorflow.initializer import broadcast_variables
from kungfu.tensorflow.ops import (
    counter,
    group_all_reduce,
    request_variable,
    request_variable_with_template,
    save_variable,
)
from kungfu.tensorflow.optimizers import SynchronousSGDOptimizer

tf.random.set_seed(1)
random = np.random.RandomState(1)
x_train = random.normal(size=(256, 8)).astype("float32")
y_train = (x_train.sum(axis=1) > 0).astype("int32")
dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train))
dataset = dataset.shard(current_cluster_size(), current_rank()).repeat().batch(16)

weights = tf.Variable(tf.random.normal([8, 2]), name="weights")
bias = tf.Variable(tf.zeros([2]), name="bias")
optimizer = SynchronousSGDOptimizer(tf.keras.optimizers.Adam(0.05))


def logits(images):
    return tf.matmul(images, weights) + bias


@tf.function
def training_step(images, labels, first_batch):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits(images))
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, [weights, bias])
    optimizer.apply_gradients(zip(gradients, [weights, bias], strict=True))
    if first_batch:  # now the optimizer has variables
        broadcast_variables([weights, bias])
        broadcast_variables(optimizer.variables())
    return loss


for step, (images, labels) in enumerate(dataset.take(24)):
    training_step(images, labels, step == 0)
    assert counter().numpy() == step

save_variable(weights, 24)
save_variable(tf.constant([current_rank()]), name="rank")
partner = (current_rank() + 1) % current_cluster_size()
theirs = request_variable_with_template(partner, weights, 24)
np.testing.assert_array_equal(theirs, weights)
assert request_variable(partner, None, "rank", [1], tf.int32).numpy() == [partner]
total, nothing = group_all_reduce([bias, None])
np.testing.assert_allclose(total, bias * current_cluster_size(), rtol=1e-5)
assert nothing is None
run_barrier()
predicted = tf.argmax(logits(x_train), axis=1).numpy()
print(f"accuracy: {np.mean(predicted == y_train):f}")
