"""Policies in a `fit` of one process."""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.context import batch_factor
from kungfu_tf.upstream import generations

keras = tf.keras


def test_a_process_that_is_alone() -> None:
    """It changes its batches as several do."""
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = kf.callbacks.PolicyCallback([kf.policy.ScheduledBatchSizePolicy("4:2,16:1")])
    data = np.ones((160, 2)), np.ones((160, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        history = model.fit(*data, 4, verbose=0, callbacks=[callback]).history
    assert history["batch_size"] == [16]


class DoublesAfterEachEpoch(kf.policy.BasePolicy):
    def __init__(self) -> None:
        self.steps: list[int] = []

    def after_epoch(self, training: Any) -> None:
        self.steps.append(training.step)
        training.set_batch_size(2 * training.batch_size)


def test_the_logs_tell_the_size_that_was_used() -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = kf.callbacks.PolicyCallback([DoublesAfterEachEpoch()])
    data = np.ones((24, 2)), np.ones((24, 1))
    history = model.fit(*data, 4, epochs=3, verbose=0, callbacks=[callback]).history
    assert history["batch_size"] == [4, 8, 16]


class BreaksWithLargerBatches(kf.policy.BasePolicy):
    def after_step(self, training: Any) -> None:
        training.set_batch_size(8)
        if float(batch_factor.factor.get()) == 2:
            raise OSError("no thermometer")


def test_a_fit_that_failed_leaves_no_larger_batches_behind() -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = kf.callbacks.PolicyCallback([BreaksWithLargerBatches()])
    with pytest.raises(kf.errors.PolicyError, match="no thermometer"):
        model.fit(np.ones((400, 2)), np.ones((400, 1)), 4, verbose=0, callbacks=[callback])
    assert float(batch_factor.factor.get()) == 1


def steps_shown(text: str) -> list[tuple[str, str]]:
    """Of the progress lines, each once: a slow step may be shown again."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    shown = re.findall(r"(?<!Epoch )\b(\d+)/(\d+)\b", plain)
    return [pair for pair, _ in itertools.groupby(shown)]


@pytest.mark.parametrize("verbose", [1, 2])
def test_the_progress_of_each_epoch_counts_its_own_steps(
    verbose: int, capsys: pytest.CaptureFixture[str]
) -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = kf.callbacks.PolicyCallback([DoublesAfterEachEpoch()])
    data = np.ones((24, 2)), np.ones((24, 1))
    model.fit(*data, 4, epochs=3, verbose=verbose, callbacks=[callback])
    shown = steps_shown(capsys.readouterr().out)
    assert [pair for pair in shown if pair[0] == pair[1]][-3:] == [
        ("6", "6"),
        ("3", "3"),
        ("2", "2"),
    ]


class Predicts(keras.callbacks.Callback):
    """After each epoch, with a progress line of its own."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.predict(np.ones((6, 2)), 2, verbose=1)


def test_predictions_between_epochs_count_their_own_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    policies = kf.callbacks.PolicyCallback([DoublesAfterEachEpoch()])
    data = np.ones((24, 2)), np.ones((24, 1))
    model.fit(*data, 4, epochs=2, verbose=0, callbacks=[policies, Predicts()])
    assert steps_shown(capsys.readouterr().out).count(("3", "3")) == 2


def test_executions_whose_number_nobody_knows() -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=4)
    policy, data = DoublesAfterEachEpoch(), (np.ones((24, 2)), np.ones((24, 1)))
    is_told = generations.package_of(model).generation == 2
    match = "steps_per_execution is 1 in this fit, not 4"
    for epochs in (2, 1):
        callback = kf.callbacks.PolicyCallback([policy])
        with pytest.warns(UserWarning, match=match) if is_told else contextlib.nullcontext():
            model.fit(*data, 4, epochs=epochs, verbose=0, callbacks=[callback])
        model.fit(*data, 4, verbose=0)
    assert policy.steps == [6, 9, 6]


class SetsARate(kf.policy.BasePolicy):
    def after_step(self, training: Any) -> None:
        training.set_learning_rate(0.5)


def test_a_rate_that_follows_a_schedule_cannot_be_set(caplog: pytest.LogCaptureFixture) -> None:
    def fit(on_error: Any) -> list[float]:
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
        model.compile(keras.optimizers.SGD(schedule), "mse")
        callback = kf.callbacks.PolicyCallback([SetsARate()], on_error=on_error)
        data = np.ones((24, 2)), np.ones((24, 1))
        return model.fit(*data, 4, epochs=2, verbose=0, callbacks=[callback]).history["loss"]

    with pytest.raises(kf.errors.PolicyError, match=r"SetsARate\.after_step: .* is a schedule"):
        fit("stop")
    assert len(fit("continue")) == 2
    assert "SetsARate.after_step" in caplog.text


def test_a_strategy_is_known_in_small_letters_too() -> None:
    policy = kf.policy.InterferenceStrategyPolicy(["ring", "Clique"])
    assert policy.strategies == ["RING", "CLIQUE"]
