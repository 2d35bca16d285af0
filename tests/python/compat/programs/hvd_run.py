"""A program for Horovod: it starts the processes by itself.

python hvd_run.py
"""

import horovod


def train(factor):
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    return factor * float(hvd.allreduce(tf.constant(float(hvd.rank())), op=hvd.Sum))


if __name__ == "__main__":
    print(f"results: {horovod.run(train, args=(10,), num_proc=2)}")
