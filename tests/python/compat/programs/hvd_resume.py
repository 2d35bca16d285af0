"""A program for Horovod and Keras: it goes on from its last checkpoint.

horovodrun -np 4 python hvd_resume.py --data mnist.npz --checkpoint-format checkpoint-{epoch}.keras
"""

import argparse
import math
import os

import horovod.keras as hvd
import numpy as np
from tensorflow import keras

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--output", required=True)
parser.add_argument("--checkpoint-format", required=True)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--base-lr", type=float, default=0.02)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--batches-per-allreduce", type=int, default=1)
args = parser.parse_args()

hvd.init()

# If set > 0, will resume training from a given checkpoint.
resume_from_epoch = 0
for try_epoch in range(args.epochs, 0, -1):
    if os.path.exists(args.checkpoint_format.format(epoch=try_epoch)):
        resume_from_epoch = try_epoch
        break

# Horovod: broadcast resume_from_epoch from rank 0 (which will have checkpoints) to other ranks.
resume_from_epoch = int(hvd.broadcast(resume_from_epoch, 0, name="resume_from_epoch"))

# Horovod: print logs on the first worker.
verbose = 2 if hvd.rank() == 0 else 0

with np.load(args.data) as data:
    x, y = data["x_train"].astype("float32") / 255, data["y_train"]
x, y = x[hvd.rank() :: hvd.size()], y[hvd.rank() :: hvd.size()]
steps = math.ceil(len(x) / args.batch_size)


def load_model_from_checkpoint():
    # Horovod: restore on rank 0, and broadcast the weights to the other workers.
    return hvd.load_model(args.checkpoint_format.format(epoch=resume_from_epoch))


if resume_from_epoch > 0 and hvd.rank() == 0:
    model = load_model_from_checkpoint()
else:
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential(
        [
            keras.layers.Input((28, 28)),
            keras.layers.Flatten(),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    initial_lr = args.base_lr * args.batches_per_allreduce * hvd.size()
    opt = keras.optimizers.SGD(initial_lr, momentum=0.9)
    opt = hvd.DistributedOptimizer(opt)
    model.compile(loss="sparse_categorical_crossentropy", optimizer=opt, metrics=["accuracy"])

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint(args.checkpoint_format))

model.fit(
    x,
    y,
    batch_size=args.batch_size,
    steps_per_epoch=steps,
    shuffle=False,
    callbacks=callbacks,
    epochs=args.epochs,
    verbose=verbose,
    initial_epoch=resume_from_epoch,
)
score = hvd.allreduce(model.evaluate(x, y, verbose=0))
print(f"from epoch {resume_from_epoch}: accuracy {score[1]:.5f}")
print(f"checksum: {float(sum(np.abs(w).sum() for w in model.get_weights()))!r}")
if hvd.rank() == 0:
    np.savez(args.output, *model.get_weights())
