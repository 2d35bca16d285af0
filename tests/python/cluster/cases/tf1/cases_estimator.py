"""Estimators train as `fit` does: evened data, rank 0's files, evaluation, early stopping."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import tensorflow as tf
import training
from harness import each
from monitors import steps_in
from sessions import assert_equal, own_directory
from support import logged, raised_by

import kungfu_tf as kf
from kungfu_tf.optimizers import SynchronousAveragingOptimizer, SynchronousSGDOptimizer

JOBS = [{"np": 3}]
TIMEOUT = 150
NEEDS = "tensorflow_estimator"

v1 = tf.compat.v1
estimators = v1.estimator
Hook = kf.initializer.BroadcastGlobalVariablesHook

BATCH = 4
BATCHES = [10, 7, 1]  # of each rank; the last of each is smaller
FEATURES = 3


def samples_of(rank, step):
    """A batch of a peer, which is empty where it has no more."""
    x, y = training.samples(1000)
    is_last = step == BATCHES[rank] - 1
    count = 0 if step >= BATCHES[rank] else BATCH - 1 - rank if is_last else BATCH
    rows = np.arange(count) + 100 * rank + BATCH * step
    return x[rows, :FEATURES], y[rows]


def input_of(batches, is_known=True):
    """The input function of these batches, whose number tf.data knows or not."""

    def input_fn():
        signature = (
            tf.TensorSpec([None, FEATURES], "float64"),
            tf.TensorSpec([None, 1], "float64"),
        )
        dataset = tf.data.Dataset.from_generator(lambda: batches, output_signature=signature)
        if is_known:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(batches)))
        return dataset

    return input_fn


def my_input(is_known=True):
    rank = kf.rank()
    return input_of([samples_of(rank, step) for step in range(BATCHES[rank])], is_known)


def whole_input():
    """Step by step the batches of all peers."""
    steps = [[samples_of(rank, s) for rank in range(kf.size())] for s in range(max(BATCHES))]
    return input_of([tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in steps])


def estimator_of(directory, wrap=SynchronousSGDOptimizer, rate=0.05, is_nan=None, seed=None):
    """A linear model, which each peer initialises in its own way."""
    seed = kf.rank() if seed is None else seed

    def model_fn(features, labels, mode):
        initializer = v1.random_normal_initializer(seed=seed, dtype=tf.float64)
        weights = v1.get_variable("weights", [FEATURES, 1], tf.float64, initializer)
        predictions = tf.matmul(features, weights)
        if mode == "infer":
            outputs = {"serving_default": estimators.export.PredictOutput(predictions)}
            return estimators.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
        loss = tf.reduce_mean(tf.square(predictions - labels))
        step = v1.train.get_global_step()
        if is_nan is not None:
            loss = tf.where(is_nan(step), np.float64("nan"), loss)
        train = wrap(v1.train.AdamOptimizer(rate)).minimize(loss, step)  # in every mode
        error = v1.metrics.mean_absolute_error(labels, predictions)
        return estimators.EstimatorSpec(
            mode, loss=loss, train_op=train, eval_metric_ops={"error": error}
        )

    config = estimators.RunConfig(save_checkpoints_steps=4, log_step_count_steps=1)
    return estimators.Estimator(model_fn, str(directory), config)


def values_of(estimator):
    return [estimator.get_variable_value(name) for name in sorted(estimator.get_variable_names())]


def expected():
    """What one process gets of the samples of all."""
    with tempfile.TemporaryDirectory() as directory:
        single = estimator_of(directory, lambda optimizer: optimizer, seed=0)
        with logged("tensorflow") as lines:
            single.train(whole_input())
        return values_of(single), losses_in(lines)


def losses_in(lines):
    return [float(line.split()[2].rstrip(",")) for line in lines if line.startswith("loss = ")]


@each(is_known=[True, False])
def case_uneven_batches(is_known):
    wanted, losses = expected()
    with own_directory() as directory:
        estimator = estimator_of(directory)
        with logged("tensorflow") as lines:
            estimator.train(my_input(is_known), hooks=[Hook()])
        values = values_of(estimator)
    assert_equal(values)
    for value, one in zip(values, wanted, strict=True):
        np.testing.assert_allclose(value, one, rtol=1e-12, atol=1e-14)
    assert len(losses) == max(BATCHES)
    np.testing.assert_allclose(losses_in(lines), losses if kf.is_root() else [], rtol=1e-6)


class Own(v1.train.SessionRunHook):
    """This peer's model, after each step."""

    def __init__(self):
        self.models = []

    def begin(self):
        [self.weights] = v1.trainable_variables()

    def after_run(self, run_context, run_values):
        self.models.append(run_context.session.run(self.weights))


def case_models_that_differ():
    """All end with their average, and each of rank 0's checkpoints is of it."""
    own = Own()
    with own_directory() as directory:
        estimator = estimator_of(directory, SynchronousAveragingOptimizer)
        estimator.train(my_input(), hooks=[Hook(), own])
        models = kf.ops.all_gather(np.array(own.models)).numpy()
        assert np.abs(models - models[0]).max(axis=(0, 2, 3)).min() > 1e-3
        means = models.mean(axis=0)
        last = estimator.get_variable_value("weights")
        np.testing.assert_allclose(last, means[-1], rtol=1e-14)
        for step in (4, 8) if kf.is_root() else ():
            saved = tf.train.load_variable(str(directory / f"model.ckpt-{step}"), "weights")
            np.testing.assert_allclose(saved, means[step - 1], rtol=1e-14)


def case_a_monitor():
    """The steps are those of the Estimator, in each training."""
    with own_directory() as directory, tempfile.TemporaryDirectory() as log_dir:
        estimator = estimator_of(directory)
        for steps in (4, 3):
            monitor = kf.hooks.MonitorHook(every_steps=2, log_dir=log_dir)
            estimator.train(my_input(), hooks=[Hook(), monitor], steps=steps)
        assert steps_in(log_dir)["step_time"] == [2, 4, 6]


def case_a_program_that_forgot_the_hook():
    """All start equal, and stop where the first has no more data."""
    with own_directory() as directory, logged("kungfu_tf") as lines:
        estimator = estimator_of(directory)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            estimator.train(my_input())
        told = [
            str(one.message) for one in warned if "BroadcastGlobalVariables" in str(one.message)
        ]
        assert len(told) == int(kf.is_root()), told
        assert estimator.get_variable_value("global_step") == 1
        assert_equal(values_of(estimator))
    if kf.is_root():
        assert len(lines) == 1 and "rank 2" in lines[0] and "no more data" in lines[0], lines


def case_rank_0_has_the_files():
    """Others evaluate and predict what they have trained, and go on where rank 0 is."""
    with own_directory() as directory:
        estimator = estimator_of(directory)
        for steps in (4, 7):
            estimator.train(my_input(), hooks=[Hook()], max_steps=steps)
            assert estimator.get_variable_value("global_step") == steps
        estimator = estimator_of(directory)
        estimator.train(my_input(), hooks=[Hook()], max_steps=7)  # rank 0 has them all
        estimator.train(my_input(), hooks=[Hook()], steps=2)
        assert estimator.get_variable_value("global_step") == 9
        found = estimator.evaluate(whole_input(), steps=3)
        assert found["global_step"] == 9 and found["loss"] > 0
        assert_equal([found["loss"], found["error"]])
        x, _ = samples_of(0, 0)
        predicted = list(estimator.predict(lambda: tf.data.Dataset.from_tensors(x)))
        assert len(predicted) == len(x)
        assert_equal(predicted)
        exported = estimator.export_saved_model(str(directory / "exported"), serving)
        assert (exported is None) == (not kf.is_root())


def case_policies():
    """Their variables are made in the Estimator's graph; what was restored goes on everywhere."""

    class Notes(kf.policy.BasePolicy):
        def __init__(self):
            self.seen, self.epochs = [], []

        def before_epoch(self, training):
            self.epochs.append(training.epoch)

        def after_step(self, training):
            self.seen.append((training.trained_samples, training.batch_size))

    def batches():
        x, y = training.samples(100)
        rows = tf.range(kf.variables.get_or_create_batch_size(4)) + 10 * kf.rank()
        return tf.gather(x[:, :FEATURES], rows), tf.gather(y, rows)

    first, again = Notes(), Notes()
    schedule = kf.policy.ScheduledBatchSizePolicy("4:2,8:1")
    with own_directory() as directory:
        estimator = estimator_of(directory)
        for policies, epochs in (([schedule, first], 2), ([again], 3)):
            hook = kf.hooks.PolicyHook(policies, 60, epochs, 4)
            estimator.train(batches, hooks=[Hook(), hook])
        assert_equal(values_of(estimator))
    assert first.seen == [(12, 4), (24, 4), (48, 8), (72, 8), (96, 8), (120, 8)], first.seen
    assert again.seen == [(144, 8), (168, 8), (192, 8)], again.seen
    assert (first.epochs, again.epochs) == ([0, 1], [2])


def serving():
    features = v1.placeholder(tf.float64, [None, FEATURES])
    return estimators.export.TensorServingInputReceiver(features, features)


def case_train_and_evaluate():
    with own_directory() as directory:
        estimator = estimator_of(directory)
        data = input_of([samples_of(kf.rank(), 0)])
        train = estimators.TrainSpec(lambda: data().repeat(), max_steps=10, hooks=[Hook()])
        exporter = estimators.LatestExporter("latest", serving)
        evaluate = estimators.EvalSpec(whole_input(), exporters=exporter, throttle_secs=0)
        metrics, _ = estimators.train_and_evaluate(estimator, train, evaluate)
        assert metrics["global_step"] == 10
        assert_equal([metrics["loss"], metrics["error"], *values_of(estimator)])
        found = estimator.evaluate(whole_input())
        assert found["error"] == metrics["error"]
        estimator.train(lambda: data().repeat(), steps=2, hooks=[Hook()])  # rank 0 built more
        assert_equal(values_of(estimator))
        if kf.is_root():
            assert list(directory.glob("export/latest/*/saved_model.pb"))
            assert list(directory.glob("eval/events*"))


def case_early_stopping():
    """By what rank 0's evaluations have found: the learning rate is 0, so nothing gets better."""
    with own_directory() as directory, logged("kungfu_tf") as lines:
        estimator = estimator_of(directory, rate=0.0)
        stop = v1.estimator.experimental.stop_if_no_decrease_hook(
            estimator, "loss", 8, run_every_secs=None, run_every_steps=1
        )
        decides = stop._should_stop_fn
        data = input_of([samples_of(kf.rank(), 0)])
        train = estimators.TrainSpec(lambda: data().repeat(), max_steps=100, hooks=[stop, Hook()])
        evaluate = estimators.EvalSpec(whole_input(), throttle_secs=0)
        metrics, _ = estimators.train_and_evaluate(estimator, train, evaluate)
        assert metrics["global_step"] < 30
        assert_equal([metrics["global_step"], *values_of(estimator)])
        assert stop._should_stop_fn is decides, "each training wraps it once more"
    if kf.is_root():
        assert len(lines) == 1 and "rank 0" in lines[0] and "asks to stop" in lines[0], lines


def case_nan():
    """Only the peer whose own samples gave it is named."""
    is_nan = lambda step: tf.logical_and(tf.equal(step, 2), kf.rank() == 1)  # noqa: E731
    with own_directory() as directory:
        estimator = estimator_of(directory, is_nan=is_nan)
        message = raised_by(
            v1.train.NanLossDuringTrainingError,
            lambda: estimator.train(my_input(), hooks=[Hook()]),
        )
    assert "rank 1" in message and "rank 0" not in message, message


def case_an_estimator_without_us():
    """A peer's own affair."""
    if kf.rank() == 1:
        with tempfile.TemporaryDirectory() as directory:
            estimator = estimator_of(directory, lambda optimizer: optimizer)
            estimator.train(my_input())
            assert estimator.get_variable_value("global_step") == BATCHES[1]
            assert list(Path(directory).glob("*.meta"))
