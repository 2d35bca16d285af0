"""A program for Horovod and TensorFlow 2: a benchmark with made-up data.

horovodrun -np 4 python hvd_benchmark.py --fp16-allreduce
"""

import argparse
import timeit

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--fp16-allreduce", action="store_true", default=False)
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--num-warmup-batches", type=int, default=2)
parser.add_argument("--num-batches-per-iter", type=int, default=2)
parser.add_argument("--num-iters", type=int, default=3)
args = parser.parse_args()

hvd.init()

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(4, 3, strides=2, activation="relu"),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(100, activation="softmax"),
    ]
)
opt = tf.optimizers.SGD(0.01)
data = tf.random.uniform([args.batch_size, 64, 64, 3])
target = tf.random.uniform([args.batch_size, 1], minval=0, maxval=99, dtype=tf.int64)


@tf.function
def benchmark_step(first_batch):
    # Horovod: (optional) compression algorithm.
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none

    # Horovod: use DistributedGradientTape
    with tf.GradientTape() as tape:
        probs = model(data, training=True)
        loss = tf.reduce_mean(tf.losses.sparse_categorical_crossentropy(target, probs))

    # Horovod: add Horovod Distributed GradientTape.
    tape = hvd.DistributedGradientTape(tape, compression=compression)

    gradients = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(
            opt.variables() if callable(opt.variables) else opt.variables, root_rank=0
        )


def log(s, nl=True):
    if hvd.rank() == 0:
        print(s, end="\n" if nl else "")


device = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
log(f"Batch size: {args.batch_size}")
log(f"Number of {device}s: {hvd.size()}")
benchmark_step(first_batch=True)
log("Running warmup...")
timeit.timeit(lambda: benchmark_step(first_batch=False), number=args.num_warmup_batches)
log("Running benchmark...")
img_secs = []
for x in range(args.num_iters):
    time = timeit.timeit(
        lambda: benchmark_step(first_batch=False), number=args.num_batches_per_iter
    )
    img_secs.append(args.batch_size * args.num_batches_per_iter / time)
    log(f"Iter #{x}: {img_secs[-1]:.1f} img/sec per {device}")
log(f"Img/sec per {device}: {np.mean(img_secs):.1f} +-{1.96 * np.std(img_secs):.1f}")
total = hvd.allreduce(tf.constant(np.mean(img_secs)), op=hvd.Sum)
log(f"Total img/sec on {hvd.size()} {device}(s): {total:.1f}")
weights = [w.numpy() for w in model.trainable_variables]
print(f"checksum: {float(sum(np.abs(w).sum() for w in weights))!r}")
