"""A program for KungFu and TensorFlow 1: Keras, with an optimizer of TensorFlow.

kungfu-run -np 4 python tf1_keras.py
"""

import numpy as np
import tensorflow as tf
from kungfu.python import current_cluster_size, current_rank
from kungfu.tensorflow.initializer import BroadcastGlobalVariablesCallback
from kungfu.tensorflow.optimizers import SynchronousSGDOptimizer

random = np.random.RandomState(1)
x_train = random.normal(size=(256, 8)).astype("float32")
y_train = (x_train.sum(axis=1) > 0).astype("int32")

model = tf.keras.models.Sequential()
model.add(tf.keras.layers.Dense(16, activation="relu", input_shape=(8,)))
model.add(tf.keras.layers.Dense(2, activation="softmax"))
optimizer = SynchronousSGDOptimizer(tf.train.AdamOptimizer(0.05), with_keras=True)
model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["acc"])
n, i = current_cluster_size(), current_rank()
model.fit(
    x_train[i::n],
    y_train[i::n],
    batch_size=32 // n,
    epochs=3,
    verbose=0,
    callbacks=[BroadcastGlobalVariablesCallback()],
)
loss, accuracy = model.evaluate(x_train, y_train, verbose=0)
print(f"loss: {loss!r}")
print(f"accuracy: {accuracy:f}")
