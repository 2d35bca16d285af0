"""The noise scale of gradients whose noise scale is known, and its corners."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.ops import noise_scale as module

COUNT = 10_000  # elements of a gradient
SMALL, BIG = 32, 128


def gradients(true_scale: float, steps: int):
    """What batches of both sizes have for gradients: |G|² = 1 and tr(Σ) = true_scale.

    The big batch is four small ones, of which one is the small batch.
    """
    random = np.random.default_rng(seed=3)
    signal = np.full(COUNT, COUNT**-0.5)
    deviation = np.sqrt(true_scale / COUNT / SMALL)
    for _ in range(steps):
        parts = signal + random.normal(scale=deviation, size=(BIG // SMALL, COUNT))
        yield parts[0].astype(np.float32), parts.mean(axis=0).astype(np.float32)


@pytest.mark.parametrize("true_scale", [10, 100, 1000])
def test_the_true_scale_is_found(true_scale: int) -> None:
    @tf.function
    def step(small, big):
        return kf.ops.global_noise_scale(SMALL, BIG, small, big, alpha=0.995)

    for small, big in gradients(true_scale, 200):
        estimate = step(small, big)
    assert estimate.dtype == tf.float32
    assert abs(estimate.numpy() / true_scale - 1) < 0.05


def test_both_parts_are_smoothed_before_they_are_divided() -> None:
    alpha, s, g = 0.7, 0.0, 0.0
    for small, big in gradients(100, 5):
        squares = [float(np.sum(np.square(x, dtype=np.float64))) for x in (small, big)]
        noise = (squares[0] - squares[1]) / (1 / SMALL - 1 / BIG)
        signal = (BIG * squares[1] - SMALL * squares[0]) / (BIG - SMALL)
        s, g = alpha * s + (1 - alpha) * noise, alpha * g + (1 - alpha) * signal
        halves = [np.array_split(x, 2) for x in (small, big)]
        scale = kf.ops.global_noise_scale(SMALL, BIG, *halves, alpha=alpha, name="smoothed")
        np.testing.assert_allclose(scale, s / g, rtol=1e-4)


def test_what_is_no_measurement_is_left_out() -> None:
    def scale(small, big):
        small, big = (tf.constant([x], tf.float32) for x in (small, big))
        return float(kf.ops.global_noise_scale(1, 2, small, big, alpha=0.5, name="corners"))

    assert np.isnan(scale(np.nan, 1.0))
    assert scale(0.0, 0.0) == 0.0
    first = scale(3.0, 2.5)
    assert 0 < first < np.inf
    assert scale(np.inf, 2.0) == first
    assert scale(9.0, 0.5) == np.inf  # nothing but noise
    assert scale(0.5, 9.0) == 0.0  # nothing of it


def test_equal_batches_tell_nothing_and_say_so_once(caplog: pytest.LogCaptureFixture) -> None:
    module._warned.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert np.isnan(kf.ops.global_noise_scale(32, 32, [1.0], [1.0], name="equal"))
    assert [record.message for record in caplog.records if "one peer" in record.message] == [
        "global_noise_scale: nothing can be measured with one peer, whose batch is all there is"
    ]


def test_arguments() -> None:
    with pytest.raises(ValueError, match="alpha is at least 0 and less than 1, not 1"):
        kf.ops.global_noise_scale(1, 2, [1.0], [1.0], alpha=1)


def test_slices_of_one_row_add_up() -> None:
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0], [3.0]]), tf.constant([4, 4, 7]))
    other = tf.constant([3 + 4j], tf.complex64)
    half = tf.constant([300.0], tf.float16)
    assert module.norms.squared_norm([slices, None, other, half]).numpy() == 9 + 9 + 25 + 90_000
    assert module.norms.squared_norm([]).numpy() == 0.0


@pytest.mark.parametrize("is_elastic", [False, True])
def test_an_optimizer_of_one_peer_measures_nothing(
    is_elastic: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And says so, also where others may come."""
    monkeypatch.setattr(peer, "is_single_process", lambda: not is_elastic)
    module._warned.clear()
    optimizer = kf.optimizers.MonitorGradientVarianceOptimizer(tf.keras.optimizers.SGD(0.1))
    variable = tf.Variable([1.0])
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            optimizer.apply_gradients([(tf.constant([1.0]), variable)])
    [warning] = [record.message for record in caplog.records if "one peer" in record.message]
    assert warning.startswith("gradient_variance: nothing can be measured")
    assert np.isnan(optimizer.kungfu_algorithm.metrics["gradient_variance"].numpy())
