"""What policies decide, of trainings that only say what they see."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.data.rebatch import Sizes, rebatched
from kungfu_tf.monitor import measurements
from kungfu_tf.policy.policies import Policies
from tests.python.unit.policy.told import Told

keras = tf.keras


@pytest.mark.parametrize(
    ("noise_scale", "sizes"),
    [
        (None, [8, 8, 8]),
        (float("nan"), [8, 8, 8]),
        (1e9, [16, 32, 40]),
        (float("inf"), [16, 32, 40]),
        (17.0, [16, 16, 16]),
        (15.9, [8, 8, 8]),
        (4.1, [8, 8, 8]),
        (4.0, [4, 4, 4]),
        (0.0, [4, 3, 3]),
    ],
)
def test_the_batch_follows_the_noise_scale(noise_scale: float | None, sizes: list[int]) -> None:
    policy = kf.policy.NoiseScaleBatchSizePolicy(40, min_batch_size=3, interval=5)
    policies, training = Policies([policy], "stop"), Told(8, noise_scale)
    found = []
    for step in range(1, 16):
        before = training.batch_size
        training.go(policies)
        assert training.batch_size == before or step % 5 == 0
        assert training.learning_rate == training.batch_size / 8
        found += [training.batch_size] * (step % 5 == 0)
    assert found == sizes


@pytest.mark.parametrize(("noise_scale", "size"), [(64.0, 16), (63.0, 8), (16.0, 4), (17.0, 8)])
def test_the_peers_share_the_noise_scale(noise_scale: float, size: int) -> None:
    policy = kf.policy.NoiseScaleBatchSizePolicy(64, interval=1)
    policies, training = Policies([policy], "stop"), Told(8, noise_scale, peers=4)
    training.go(policies)
    assert training.batch_size == size


def test_single_measurements_do_not_move_the_batch() -> None:
    policy = kf.policy.NoiseScaleBatchSizePolicy(64, interval=5)
    policies, training = Policies([policy], "stop"), Told(8)
    by_interval = {(8, 0, np.inf, 9, np.inf): 8, (16, 0, 17, 0, 16): 16, (8, 99, 4, 99, 3): 8}
    for noise_scales, size in by_interval.items():
        for noise_scale in noise_scales:
            training.noise = noise_scale
            training.go(policies)
        assert training.batch_size == size, noise_scales


def test_a_second_training_begins_with_its_own_noise() -> None:
    policy = kf.policy.NoiseScaleBatchSizePolicy(64, interval=5)
    policies = Policies([policy], "stop")
    for noise_scale, steps, size in ((0.0, 5 + 4, 4), (1e9, 5, 16)):
        training = Told(8, noise_scale)
        policies.call("before_train", training)
        for _ in range(steps):
            training.go(policies)
        assert training.batch_size == size


@pytest.mark.parametrize(
    ("made", "looks"), [(1, [5, 10, 15, 20]), (3, [6, 12, 15, 21]), (7, [7, 14, 21])]
)
def test_executions_of_several_steps_pass_the_interval(made: int, looks: list[int]) -> None:
    training = Told()
    training.last_steps = made
    found = []
    for training.step in range(made, 22, made):
        if training.has_made(5):
            found.append(training.step)
    assert found == looks


@pytest.mark.parametrize(("scaling", "rate"), [("linear", 4.0), ("sqrt", 2.0), ("none", 1.0)])
def test_the_learning_rate_follows_the_batch(scaling: str, rate: float) -> None:
    policy = kf.policy.ScheduledBatchSizePolicy("8:2,32:3", scale_learning_rate=scaling)
    policies, training = Policies([policy], "stop"), Told()
    sizes = []
    for _ in range(7):
        training.go(policies)
        sizes.append(training.batch_size)
    assert sizes == [8, 32, 32, 32, 32, 32, 32]  # the step after the second is the first with 32
    assert training.learning_rate == rate


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ("", "at character 1, ''"),
        ("4:5,8", "at character 5, '8': that is not size:steps"),
        ("4:5,8:x", "at character 5, '8:x'"),
        ("0:5", "sizes and steps begin with 1"),
        ("4:0", "sizes and steps begin with 1"),
        ("4:-1", "that is not size:steps"),
    ],
)
def test_a_schedule_that_cannot_be_understood(schedule: str, text: str) -> None:
    with pytest.raises(ValueError, match="schedule") as caught:
        kf.policy.ScheduledBatchSizePolicy(schedule)
    assert text in str(caught.value)


def test_arguments_out_of_range() -> None:
    policy, training = kf.policy.NoiseScaleBatchSizePolicy, Told()
    for wrong in (
        lambda: policy(0),
        lambda: policy(4, min_batch_size=8),
        lambda: policy(4, interval=0),
        lambda: policy(4, scale_learning_rate="cubic"),
        lambda: training.set_batch_size(0),
        lambda: training.set_batch_size(2.5),  # type: ignore[arg-type]
        lambda: training.set_batch_size(True),
        lambda: training.set_batch_size("8"),  # type: ignore[arg-type]
        lambda: training.resize(True),
        lambda: training.resize(2.0),  # type: ignore[arg-type]
        lambda: training.resize(np.int64(0)),  # type: ignore[arg-type]
        lambda: training.set_learning_rate(-1.0),
        lambda: training.set_learning_rate(float("nan")),
        lambda: kf.callbacks.PolicyCallback([], batch_size=0),
        lambda: kf.callbacks.PolicyCallback([], on_error="ignore"),
        lambda: kf.hooks.PolicyHook([], 10, 0, 4),
    ):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError, match="BasePolicy"):
        kf.callbacks.PolicyCallback([policy])  # type: ignore[list-item]


def test_integers_of_numpy_are_numbers_too() -> None:
    training = Told()
    training.set_batch_size(np.int64(16))  # type: ignore[arg-type]
    training.resize(np.int32(3))  # type: ignore[arg-type]
    wanted = training.wanted_batch_size, training.wanted_size
    assert wanted == (16, 3) and {type(number) for number in wanted} == {int}


def test_who_raises_is_named_and_others_go_on() -> None:
    class Fails(kf.policy.BasePolicy):
        def after_step(self, training: kf.policy.Training) -> None:
            training.set_learning_rate(0.5)
            raise OSError("no thermometer")

    class Stops(kf.policy.BasePolicy):
        def after_step(self, training: kf.policy.Training) -> None:
            training.stop()

    with pytest.raises(kf.errors.PolicyError, match=r"Fails\.after_step: OSError: no"):
        Told().go(Policies([Fails()], "stop"))
    training, policies = Told(), Policies([Fails(), Stops()], "continue")
    training.go(policies)
    assert training.has_ended
    training.set_learning_rate(2.0)
    training.go(policies)
    assert training.learning_rate == 2.0


def test_who_asks_for_what_cannot_be_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Asks(kf.policy.BasePolicy):
        def __init__(self, action: str, value: Any) -> None:
            self.wish, self.steps = (action, value), 0

        def after_step(self, training: kf.policy.Training) -> None:
            self.steps += 1
            getattr(training, self.wish[0])(self.wish[1])

    class NeedsSlots(Told):
        def propose_size(self, size: int) -> None:
            raise kf.errors.FailedPreconditionError(f"there are no {size} slots")

    for action, value, text in (
        ("set_strategy", "SPIRAL", r"ValueError: a strategy is AUTO or .* not 'SPIRAL'"),
        ("set_tree", [1], r"ValueError: these parents .* are no tree: \[1\]"),
        ("resize", 0, "ValueError: a number of peers is a positive integer, not 0"),
        ("resize", 99, "FailedPreconditionError: there are no 99 slots"),
    ):
        asks, calm = Asks(action, value), Asks("set_learning_rate", 0.5)
        with pytest.raises(kf.errors.PolicyError, match=rf"Asks\.after_step: {text}"):
            NeedsSlots().go(Policies([calm, asks], "stop"))
        policies, training = Policies([asks, calm], "continue"), NeedsSlots()
        training.go(policies)
        assert re.search(rf"Asks\.after_step: {text}", caplog.text)
        caplog.clear()
        training.go(policies)
        assert (asks.steps, calm.steps, training.learning_rate) == (1 + 1, 1 + 2, 0.5)
        assert caplog.text == ""


def test_batches_that_change_while_they_are_read() -> None:
    sizes = Sizes(3)
    dataset = rebatched(tf.data.Dataset.range(40).batch(7), sizes)
    for first in (3, 5):
        batches = []
        for taken, batch in enumerate(dataset, start=1):
            batches.append(batch.numpy())
            if taken == 1:
                sizes.change(5, taken, lambda begun: begun)
        assert np.concatenate(batches).tolist() == list(range(40))
        lengths = [len(batch) for batch in batches]
        assert lengths[0] == first and set(lengths[:-1]) == {first, 5}
    assert sizes.newest == 5


def test_a_batch_that_any_peer_has_begun_keeps_its_size() -> None:
    sizes = Sizes(3)
    for batch in range(9):
        sizes.begin(batch)
    sizes.change(5, 1, lambda begun: 11)  # as far as another peer is
    assert [sizes.begin(batch) for batch in (11, 12)] == [3, 5]


def test_nested_samples() -> None:
    data = {"a": np.arange(12).reshape(6, 2), "b": (np.arange(6.0), np.array([b"x"] * 6))}
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(4)
    [whole] = list(rebatched(dataset, Sizes(6)))
    np.testing.assert_array_equal(whole["a"], data["a"])
    np.testing.assert_array_equal(whole["b"][0], data["b"][0])


def test_shared_variables() -> None:
    keys, variables = kf.variables.GraphKeys, kf.variables
    with pytest.raises(KeyError, match="there is no global variable 'patience'"):
        variables.get_global_variable("patience")
    patience = variables.create_global_variable("patience", value=3)
    with pytest.raises(ValueError, match="already"):
        variables.create_global_variable("patience")
    assert variables.get_or_create_global_variable("patience", value=9) is patience
    variables.create_setter(patience)(7)
    assert variables.eval_global_variable("patience") == 7
    for value in (32, 64):
        assert int(variables.get_or_create_batch_size(value)) == 32
    assert variables.eval_batch_size() == int(variables.get_batch_size()) == 32
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with pytest.raises(KeyError):
            variables.eval_gradient_noise_scale(session=session)
        size = variables.create_global_variable(keys.BATCH_SIZE, value=8)
        set_size = variables.create_setter(size)
        session.run(tf.compat.v1.global_variables_initializer())
        assert variables.eval_batch_size(session=session) == 8
        set_size(16, session=session)
        assert variables.eval_batch_size(session=session) == 16


def test_the_throughput_is_that_of_the_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is read, and whatever else looks at the throughput."""
    seen = {"RING": (100, 1.0), "STAR": (10, 1.0)}
    monkeypatch.setattr(
        measurements,
        "throughputs",
        lambda: {name: measurements.Throughput(*one, 0.0, 0.0) for name, one in seen.items()},
    )
    monkeypatch.setattr(measurements, "end_window", lambda: pytest.fail("it ends a window"))
    training = Told()
    assert training.throughput == 0
    for after, throughput in (((500, 2.0), 400), ((500, 2.0), 0), ((800, 4.0), 150)):
        training.begin_step()
        seen["RING"] = after
        training.end_step()
        assert [training.throughput, training.throughput] == [throughput] * 2


def test_a_throughput_that_nobody_reads_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first who does gets that of all steps until then."""
    moved = measurements.Moved(100, 1.0)
    training = Told()
    training._moved = moved
    monkeypatch.setattr(measurements, "moved", lambda: pytest.fail("it is measured"))
    for _ in range(2):
        training.begin_step()
        training.end_step()
    monkeypatch.setattr(measurements, "moved", lambda: moved)
    moved = measurements.Moved(500, 3.0)
    assert [training.throughput, training.throughput] == [200] * 2
    training.begin_step()
    moved = measurements.Moved(800, 4.0)
    training.end_step()
    assert training.throughput == 300


class Asked(Told):
    """Told, and asked for peers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []

    def propose_size(self, size: int) -> None:
        self.asked.append((self.step, size))


def test_in_a_job_that_stays_as_it_is_a_schedule_of_peers_warns() -> None:
    training = Asked()
    policies = Policies([kf.policy.ScheduledClusterSizePolicy("1:2,4:3")], "stop")
    with pytest.warns(UserWarning, match="kungfu-run -w"):
        policies.call("before_train", training)
    policies.agree(training)
    for _ in range(4):
        training.go(policies)
    assert training.asked == []


def test_the_number_of_peers_follows_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "elastic", lambda: True)
    training = Asked()
    policies = Policies([kf.policy.ScheduledClusterSizePolicy("1:2,4:3,2:1")], "stop")
    policies.call("before_train", training)
    policies.agree(training)
    for _ in range(8):
        training.go(policies)
    assert training.asked == [(0, 1), (2, 4), (5, 2)]
    with pytest.raises(ValueError, match="positive integer, not 0"):
        training.resize(0)
    with pytest.raises(ValueError, match="at character 1"):
        kf.policy.ScheduledClusterSizePolicy("4")
