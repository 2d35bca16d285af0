"""A program for Horovod: what scripts around a training ask for.

horovodrun -np 4 python hvd_objects.py
"""

import os

import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
assert hvd.is_initialized()
rank, size = hvd.rank(), hvd.size()
assert (rank, size) == (int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"]))
assert hvd.local_rank() == int(os.environ["HOROVOD_LOCAL_RANK"])
assert hvd.cross_size() == 1 and hvd.cross_rank() == 0 and hvd.is_homogeneous()
assert not hvd.mpi_threads_supported() and not hvd.nccl_built() and hvd.gloo_built()

options = hvd.broadcast_object({"classes": {"cat", "dog"}} if rank == 0 else None, root_rank=0)
assert options == {"classes": {"cat", "dog"}}
assert hvd.allgather_object([rank] * rank) == [[r] * r for r in range(size)]

ones = tf.ones([2, 2])
assert (hvd.allreduce(ones * rank).numpy() == (size - 1) / 2).all()
assert (hvd.allreduce(ones, average=False).numpy() == size).all()
assert (hvd.allreduce(ones, op=hvd.Sum, postscale_factor=0.5).numpy() == size / 2).all()
own = tf.one_hot(rank, size)  # orthogonal to those of the others
assert (hvd.allreduce(own, op=hvd.Adasum).numpy() == 1).all()
weight = tf.Variable(tf.ones([size]))
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), op=hvd.Adasum)
optimizer.apply_gradients([(own, weight)])
assert (weight.numpy() == 0).all()
optimizer = hvd.DistributedOptimizer(
    tf.keras.optimizers.SGD(1.0),
    op=hvd.Adasum,
    backward_passes_per_step=2,
    compression=hvd.Compression.fp16,
)
for values in (-own, -2 * tf.ones([size]), -2 - own, -4 * tf.ones([size])):
    optimizer.apply_gradients([(own, weight)])
    assert (weight.numpy() == values.numpy()).all(), (weight, values)
weight.assign(tf.zeros([size]))
with hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Adasum) as tape:
    loss = tf.reduce_sum(weight * own)
assert (tape.gradient(loss, weight).numpy() == 1).all()
assert hvd.allreduce(tf.constant([rank, 1])).numpy().tolist() == [(size - 1) // 2, 1]
assert hvd.allgather(tf.fill([rank, 1], rank)).shape[0] == sum(range(size))
received, splits = hvd.alltoall(tf.range(size) + 10 * rank, splits=tf.ones([size], tf.int32))
assert received.numpy().tolist() == [rank + 10 * r for r in range(size)]
assert splits.numpy().tolist() == [1] * size
assert hvd.broadcast(rank, root_rank=size - 1).numpy() == size - 1
print("checksum: 1.0")
