"""A program for Horovod: it starts the processes by itself.

python hvd_run.py
"""

import os

import horovod


def train(factor):
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    assert os.environ["HOROVOD_RANK"] == os.environ["HOROVOD_LOCAL_RANK"] == str(hvd.rank())
    return factor * float(hvd.allreduce(tf.constant(float(hvd.rank())), op=hvd.Sum))


if __name__ == "__main__":
    print(f"results: {horovod.run(train, args=(10,), num_proc=2, min_num_proc=2)}")
