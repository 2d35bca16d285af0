"""A program for Horovod and TensorFlow 2: MNIST with a GradientTape.

horovodrun -np 4 python hvd_tape.py --data mnist.npz
"""

import argparse

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--output", required=True)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--base-lr", type=float, default=0.02)
parser.add_argument("--steps", type=int, default=24)
args = parser.parse_args()

hvd.init()

with np.load(args.data) as data:
    images, labels = data["x_train"], data["y_train"]
dataset = tf.data.Dataset.from_tensor_slices(
    (tf.cast(images[..., np.newaxis] / 255.0, tf.float32), tf.cast(labels, tf.int64))
)
dataset = dataset.repeat().shard(hvd.size(), hvd.rank()).batch(args.batch_size)

tf.keras.utils.set_random_seed(42)
mnist_model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(4, [5, 5], strides=3, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10),
    ]
)
loss = tf.losses.SparseCategoricalCrossentropy(from_logits=True)

# Horovod: adjust learning rate based on number of GPUs.
opt = tf.optimizers.SGD(args.base_lr * hvd.size(), momentum=0.9)


@tf.function
def training_step(images, labels, first_batch):
    with tf.GradientTape() as tape:
        probs = mnist_model(images, training=True)
        loss_value = loss(labels, probs)

    # Horovod: add Horovod Distributed GradientTape.
    tape = hvd.DistributedGradientTape(tape)

    grads = tape.gradient(loss_value, mnist_model.trainable_variables)
    opt.apply_gradients(zip(grads, mnist_model.trainable_variables, strict=True))

    # Horovod: broadcast initial variable states from rank 0 to all other processes. This is
    # necessary to ensure consistent initialization of all workers. Broadcast should be done after
    # the first gradient step to ensure optimizer initialization.
    if first_batch:
        hvd.broadcast_variables(mnist_model.variables, root_rank=0)
        variables = opt.variables() if callable(opt.variables) else opt.variables
        hvd.broadcast_variables(variables, root_rank=0)
    return loss_value


checkpoint = tf.train.Checkpoint(model=mnist_model, optimizer=opt)
for batch, (images, labels) in enumerate(dataset.take(args.steps)):
    loss_value = training_step(images, labels, batch == 0)
    if batch % 10 == 0 and hvd.local_rank() == 0:
        print(f"Step #{batch}\tLoss: {loss_value:.6f}")

average = hvd.allreduce(loss_value, name="loss")
print(f"loss: {average:.5f}")
weights = [w.numpy() for w in mnist_model.trainable_variables]
print(f"checksum: {float(sum(np.abs(w).sum() for w in weights))!r}")
if hvd.rank() == 0:
    checkpoint.save(args.output + ".checkpoint")
    np.savez(args.output, *weights)
