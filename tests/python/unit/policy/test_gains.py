"""AdaScale and goodput: what the policies decide, of trainings that only say what they see."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kungfu_tf as kf
from kungfu_tf.policy.policies import Policies
from tests.python.unit.policy.told import Told

INF = float("inf")


@pytest.mark.parametrize(
    ("peers", "noise_scale", "gain"),
    [
        (4, None, 1.0),
        (4, 0.0, 1.0),  # all samples want the same
        (4, INF, 4.0),
        (4, 8.0, 2 / 1.25),  # of a batch of 8
        (4, 32.0, 5 / 2),
        (1, 32.0, 1.0),
    ],
)
def test_the_gain(peers: int, noise_scale: float | None, gain: float) -> None:
    policy = kf.policy.AdaScalePolicy(0.1)
    policies, training = Policies([policy], "stop"), Told(8, noise_scale, peers=peers)
    policies.call("before_train", training)
    policies.agree(training)
    assert training.learning_rate == 0.1
    for step in range(1, 4):
        training.go(policies)
        assert policy.gain == gain
        assert policy.progress == pytest.approx(step * gain)
        assert training.learning_rate == pytest.approx(0.1 * gain)


@pytest.mark.parametrize("peers", [2, 3, 8])
def test_the_gain_is_that_of_the_paper(peers: int) -> None:
    """(σ² + μ²) / (σ²/n + μ²), where σ² is the variance of a peer's gradient, and μ its mean."""
    variance, mean = 3.7, 0.9
    noise_scale = 8 * variance / mean**2
    policy = kf.policy.AdaScalePolicy(0.1)
    Told(8, noise_scale, peers=peers).go(Policies([policy], "stop"))
    assert policy.gain == pytest.approx((variance + mean**2) / (variance / peers + mean**2))


def test_the_schedule_is_one_of_the_progress() -> None:
    policy = kf.policy.AdaScalePolicy(lambda progress: 1 / (1 + progress), steps=5)
    policies, training = Policies([policy], "stop"), Told(8, 8.0, peers=4)  # a gain of 1.6
    policies.call("before_train", training)
    rates = []
    while not training.has_ended:
        training.go(policies)
        rates.append(training.learning_rate)
    assert rates == pytest.approx([1.6 / (1 + 1.6 * n) for n in (1, 2, 3, 4)])
    policies.call("before_train", training)
    assert policy.progress == 0


@pytest.mark.parametrize("options", [{"rate": -1}, {"rate": INF}, {"rate": 1, "steps": 0}])
def test_numbers_out_of_range(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="AdaScalePolicy"):
        kf.policy.AdaScalePolicy(**options)


class OfTime(Told):
    """A training whose steps take α + β·b seconds."""

    def __init__(self, start: float, slope: float, noise_scale: float | None) -> None:
        super().__init__(8, noise_scale, peers=4)
        self._start, self._slope = start, slope

    def go(self, policies: Policies) -> None:
        self.step_time = self._start + self._slope * self.batch_size
        super().go(policies)


def sizes_of(training: OfTime, decisions: int = 12, most: int = 512) -> list[int]:
    """The batch sizes after each decision."""
    policy = kf.policy.GoodputPolicy(most, min_batch_size=2, interval=4)
    policies, found = Policies([policy], "stop"), []
    policies.call("before_train", training)
    for step in range(1, 4 * decisions + 1):
        before = training.batch_size
        training.go(policies)
        assert training.batch_size == before or step % 4 == 0
        found += [training.batch_size] * (step % 4 == 0)
    return found


def best(start: float, slope: float, noise_scale: float) -> float:
    """Where n·b/(α + β·b)·1/(s + n·b) is largest, for 4 peers: b² = α·s / (β·n)."""
    return math.sqrt(start * noise_scale / (slope * 4))


@pytest.mark.parametrize("noise_scale", [100.0, 1000.0, 10_000.0])
def test_the_best_goodput(noise_scale: float) -> None:
    found = sizes_of(OfTime(0.1, 0.001, noise_scale))
    right = best(0.1, 0.001, noise_scale)

    def goodput(size: float) -> float:
        return size / (0.1 + 0.001 * size) / (noise_scale + 4 * size)

    assert found[0] == 16  # to learn what larger batches take
    assert goodput(found[-1]) >= goodput(right) / 1.05
    assert all(1 / 2 <= b / a <= 2 for a, b in zip([8, *found], found, strict=False))


def test_steps_that_take_as_long_as_their_samples() -> None:
    """Then a larger batch is never better."""
    assert sizes_of(OfTime(0.0, 0.01, 100.0))[-1] == 2


def test_a_training_that_begins_with_the_largest_batch() -> None:
    """What smaller ones take is learned from half of it."""
    assert sizes_of(OfTime(0.0, 0.01, 100.0), most=8)[:2] == [4, 2]


def test_samples_of_noise_only() -> None:
    assert sizes_of(OfTime(0.1, 0.001, INF), most=100)[-1] == pytest.approx(100, rel=0.05)


def test_nothing_is_done_without_a_noise_scale() -> None:
    assert set(sizes_of(OfTime(0.1, 0.001, None))) == {8}


def test_the_rate_follows_the_batch() -> None:
    training = OfTime(0.1, 0.001, 1000.0)
    sizes_of(training)
    assert training.learning_rate == pytest.approx(training.batch_size / 8)


def test_times_that_only_differ_by_noise() -> None:
    """A fit with a falling time counts as one that stays."""
    policy = kf.policy.GoodputPolicy(64)
    policy._first, policy._times = 8, {8: 0.2, 16: 0.1}
    found = policy._goodputs(np.array([8.0, 16.0]), INF, 4)
    np.testing.assert_allclose(found, [32 / 0.15, 64 / 0.15])


@pytest.mark.parametrize("options", [{"max_batch_size": 0}, {"max_batch_size": 4, "interval": 1}])
def test_sizes_out_of_range(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="GoodputPolicy"):
        kf.policy.GoodputPolicy(**options)
