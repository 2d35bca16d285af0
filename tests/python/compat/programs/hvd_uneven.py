"""A program for Horovod and TensorFlow 2: each process has a file, and the files differ in length.

horovodrun -np 4 python hvd_uneven.py
"""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

RATE, EPOCHS = 0.125, 3

hvd.init()
files = [np.random.default_rng(seed=r).normal(size=2 + 3 * r) for r in range(hvd.size())]
dataset = tf.data.Dataset.from_tensor_slices(files[hvd.rank()])
weight = tf.Variable(10.0 + hvd.rank(), dtype=tf.float64)
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(RATE, momentum=0.5))


@tf.function
def training_step(x):
    with tf.GradientTape() as tape:
        loss = (weight - x) ** 2 / 2
    optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
    return hvd.allreduce(loss, name="loss")


hvd.broadcast_variables([weight], root_rank=0)
for epoch in range(EPOCHS):
    for x in dataset:
        loss = training_step(x)
    # The processes with shorter files wait here, and get the model of the one with the longest.
    last = int(hvd.join())
    print("epoch", epoch, "has ended with rank", last)
    hvd.broadcast_variables([weight], root_rank=last)
    variables = optimizer.variables
    hvd.broadcast_variables(variables() if callable(variables) else variables, root_rank=last)

expected, speed = 10.0, 0.0
for _ in range(EPOCHS):
    for step in range(len(files[-1])):
        gradient = sum(expected - file[step] for file in files if step < len(file)) / hvd.size()
        speed = 0.5 * speed - RATE * gradient
        expected += speed
assert abs(float(weight) - expected) < 1e-6, (float(weight), expected)
print(f"checksum: {float(weight)!r}")
