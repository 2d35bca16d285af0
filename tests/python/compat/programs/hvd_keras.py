"""A program for Horovod and Keras: MNIST by fit, with Horovod's callbacks.

horovodrun -np 4 python hvd_keras.py --data mnist.npz
"""

import argparse
import os

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--output", required=True)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--base-lr", type=float, default=0.02)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--warmup-epochs", type=int, default=2)
args = parser.parse_args()

# Horovod: initialize Horovod.
hvd.init()

# Horovod: pin GPU to be used to process local rank (one GPU per process)
gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

with np.load(args.data) as data:
    x_train, y_train = data["x_train"], data["y_train"]
dataset = tf.data.Dataset.from_tensor_slices(
    (
        tf.cast(x_train[..., np.newaxis] / 255.0, tf.float32),
        tf.cast(y_train, tf.int64),
    )
)
dataset = dataset.shard(hvd.size(), hvd.rank()).batch(args.batch_size)

tf.keras.utils.set_random_seed(42 + hvd.rank())
mnist_model = tf.keras.Sequential(
    [
        tf.keras.layers.Input((28, 28, 1)),
        tf.keras.layers.Conv2D(4, [5, 5], strides=3, activation="relu"),
        tf.keras.layers.MaxPooling2D(pool_size=(2, 2)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(16, activation="relu"),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)

# Horovod: adjust learning rate based on number of GPUs.
scaled_lr = args.base_lr * hvd.size()
opt = tf.keras.optimizers.SGD(scaled_lr, momentum=0.9)

# Horovod: add Horovod DistributedOptimizer.
opt = hvd.DistributedOptimizer(opt, backward_passes_per_step=1, average_aggregated_gradients=True)
mnist_model.compile(
    loss=tf.keras.losses.SparseCategoricalCrossentropy(), optimizer=opt, metrics=["accuracy"]
)

callbacks = [
    # Horovod: broadcast initial variable states from rank 0 to all other processes.
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    # Horovod: average metrics among workers at the end of every epoch.
    hvd.callbacks.MetricAverageCallback(),
    # Horovod: reduce the learning rate in later epochs.
    hvd.callbacks.LearningRateScheduleCallback(scaled_lr, start_epoch=2, multiplier=0.5),
]
if args.warmup_epochs:
    # Horovod: using `lr = 1.0 * hvd.size()` from the very beginning leads to worse final accuracy.
    warmup = hvd.callbacks.LearningRateWarmupCallback(
        initial_lr=scaled_lr, warmup_epochs=args.warmup_epochs, verbose=1
    )
    callbacks.append(warmup)

# Horovod: save checkpoints only on worker 0 to prevent other workers from corrupting them.
if hvd.rank() == 0:
    checkpoint = os.path.join(os.path.dirname(args.output), "checkpoint.weights.h5")
    callbacks.append(tf.keras.callbacks.ModelCheckpoint(checkpoint, save_weights_only=True))

# Horovod: write logs on worker 0.
verbose = 2 if hvd.rank() == 0 else 0
history = mnist_model.fit(dataset, callbacks=callbacks, epochs=args.epochs, verbose=verbose)

print(f"loss: {[round(float(loss), 5) for loss in history.history['loss']]}")
print(f"checksum: {float(sum(np.abs(w).sum() for w in mnist_model.get_weights()))!r}")
if hvd.rank() == 0:
    assert os.path.exists(checkpoint)
    np.savez(args.output, *mnist_model.get_weights())
