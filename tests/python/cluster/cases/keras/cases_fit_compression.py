"""`fit` whose gradients travel by PowerSGD: what it shares, and what backups keep."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

import numpy as np
import training
from fits import keras, mine, model_of, same_on_all, samples
from harness import Skip, exhaustive
from support import raised_by

import kungfu_tf as kf
from kungfu_tf.compression import PowerSGD
from kungfu_tf.optimizers import SynchronousSGDOptimizer
from kungfu_tf.upstream import generations

JOBS = [{"np": 3}]
TIMEOUT = 200

BATCH, STEPS, EPOCHS = 4, 6, 4


def compressed(rate=0.1, **options):
    codec = PowerSGD(rank=1, min_rate=1)
    return SynchronousSGDOptimizer(keras.optimizers.SGD(rate, **options), compression=codec)


def codec_of(model):
    [algorithm] = generations.algorithms_of_model(model)
    return algorithm.compression


def train(model, callbacks=(), **options):
    x, y = mine(samples(STEPS * BATCH * kf.size()))
    options = {"epochs": EPOCHS, **options}
    model.fit(
        x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=list(callbacks), **options
    )
    return model


class Interrupted(Exception):
    """What ends a training on purpose."""


class Interrupts(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            assert any(np.abs(v.numpy()).max() > 0 for v in codec_of(self.model).state.errors)
            raise Interrupted


def case_a_resumed_training_is_that_of_an_uninterrupted_one():
    if not training.is_keras_3():
        raise Skip("BackupAndRestore of Keras 2 does not keep the algorithm's state")
    folder = os.path.join(tempfile.gettempdir(), f"{os.environ['KUNGFU_JOB_ID']}-compression")
    whole = train(model_of(compressed()))
    backup = lambda: keras.callbacks.BackupAndRestore(folder)  # noqa: E731
    with contextlib.suppress(Interrupted):
        train(model_of(compressed()), [backup(), Interrupts()])
    resumed = train(model_of(compressed()), [backup()])
    np.testing.assert_allclose(
        training.flat_weights(resumed), training.flat_weights(whole), rtol=1e-12, atol=1e-12
    )
    kf.barrier()
    if kf.is_root():
        shutil.rmtree(folder, ignore_errors=True)


def case_a_backup_in_the_middle_of_an_epoch():
    """All peers begin the next step with what rank 0 has saved."""

    class Looks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            equal.append(same_on_all(codec_of(self.model).state.errors[0]))

    equal = []
    with tempfile.TemporaryDirectory() as folder:
        backup = keras.callbacks.BackupAndRestore(folder, save_freq=2)
        train(model_of(compressed()), [backup, Looks()], epochs=1)
    assert equal == [False, True] * (STEPS // 2), equal


@exhaustive()
def case_two_trainings_are_one():
    """Each `fit` ends with what all peers lack on average."""
    whole = train(model_of(compressed()))
    model = train(model_of(compressed()), epochs=1)
    assert all(same_on_all(v) for v in codec_of(model).state.variables)
    train(model, epochs=EPOCHS, initial_epoch=1)
    np.testing.assert_allclose(
        training.flat_weights(model), training.flat_weights(whole), rtol=1e-12, atol=1e-12
    )


def case_peers_with_different_codecs():
    codec = PowerSGD(rank=1 + kf.rank() // 2)
    optimizer = SynchronousSGDOptimizer(keras.optimizers.SGD(0.1), compression=codec)
    text = raised_by(Exception, lambda: train(model_of(optimizer)))
    assert "rank=1" in text and "rank=2" in text, text
    assert "compression must be the same on all peers" in text, text
