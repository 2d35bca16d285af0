"""A program for KungFu and TensorFlow 2: Keras.

kungfu-run -np 4 python tf2_keras.py
"""

import numpy as np
import tensorflow as tf
from kungfu import current_cluster_size, current_rank
from kungfu.tensorflow.initializer import BroadcastGlobalVariablesCallback
from kungfu.tensorflow.optimizers import SynchronousSGDOptimizer

random = np.random.RandomState(1)
x_train = random.normal(size=(256, 8)).astype("float32")
y_train = (x_train.sum(axis=1) > 0).astype("int32")

n_shards = current_cluster_size()
shard = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shard(n_shards, current_rank())
shard = shard.repeat().batch(32 // n_shards)

model = tf.keras.models.Sequential(
    [
        tf.keras.Input((8,)),
        tf.keras.layers.Dense(16, activation="relu"),
        tf.keras.layers.Dense(2),
    ]
)
optimizer = SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.1 * n_shards), with_keras=True)
model.compile(
    optimizer=optimizer,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(
    shard,
    steps_per_epoch=16,
    epochs=2,
    callbacks=[BroadcastGlobalVariablesCallback()],
    verbose=1 if current_rank() == 0 else 0,
)
loss, accuracy = model.evaluate(x_train, y_train, verbose=0)
print(f"accuracy: {accuracy:f}")
