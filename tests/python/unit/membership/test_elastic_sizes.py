"""Who asks for which number of peers, and when."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import peer
from kungfu_tf.context import ordinals
from kungfu_tf.membership.size_plan import SizePlan
from kungfu_tf.ops.resize import resize_from_config_server
from kungfu_tf.policy.training import Training
from tests.python.unit.keras.small_fit import Interrupted, X, model_of


def test_a_callback_of_a_job_that_stays_as_it_is_warns() -> None:
    callback = kf.elastic.ElasticCallback("1:3,2:1")
    with pytest.warns(UserWarning, match="kungfu-run -w"):
        kf.elastic.fit(model_of("sgd"), X, y=X[:, :1], verbose=0, callbacks=[callback])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What is asked for in this process, which is a job of `kungfu-run -w` meanwhile."""
    numbers: list[int] = []
    monkeypatch.setattr(peer, "launched", lambda: True)
    monkeypatch.setattr(peer, "elastic", lambda: True)
    monkeypatch.setattr(peer, "resize", lambda **_: False)
    monkeypatch.setattr(peer, "propose_new_size", numbers.append)
    return numbers


def test_who_is_not_rank_0_asks_for_nothing(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = SizePlan("1:10,2:10,3:10")
    monkeypatch.setattr(peer, "rank", lambda: 1)
    plan.ask(15)
    monkeypatch.setattr(peer, "rank", lambda: 0)
    plan.ask(16)
    assert asked == []
    plan.ask(20)
    assert asked == [3]


def test_a_newcomer_does_not_train_by_itself(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "joining", lambda: True)
    assert (kf.rank(), kf.is_root(), kf.run_on_root(lambda: "ran")) == (0, False, None)
    model = model_of(kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD()))
    with pytest.raises(kf.errors.FailedPreconditionError, match="was not taken in: of data that"):
        model.fit(X, X[:, :1], verbose=0)
    dealt = kf.data.shard(tf.data.Dataset.from_tensor_slices((X, X[:, :1])), shuffle=4).batch(2)
    with pytest.raises(kf.errors.FailedPreconditionError, match="in: steps_per_epoch is given"):
        model.fit(dealt, steps_per_epoch=1, verbose=0)
    with pytest.raises(kf.errors.FailedPreconditionError, match=r"in: Shuffle after data\.shard"):
        model.fit(dealt.shuffle(2), verbose=0)


def test_a_newcomer_does_not_train_in_a_session_of_its_own(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "joining", lambda: True)
    hook = kf.initializer.BroadcastGlobalVariablesHook()
    with tf.Graph().as_default():
        tf.compat.v1.train.get_or_create_global_step()
        with pytest.raises(
            kf.errors.FailedPreconditionError, match=r"nothing takes it in\. .*ElasticHook"
        ):
            tf.compat.v1.train.MonitoredTrainingSession(hooks=[hook])


@pytest.mark.parametrize("follows", [False, True])
def test_policies_of_a_session_ask_for_others_where_it_follows(
    follows: bool, asked: list[int]
) -> None:
    class Asks(kf.policy.BasePolicy):
        def after_step(self, training: Training) -> None:
            training.resize(2)

    def train() -> None:
        with tf.Graph().as_default():
            step = tf.compat.v1.train.get_or_create_global_step().assign_add(1)
            hooks = [kf.hooks.PolicyHook([Asks()], 4, 1, 4)]
            hooks += [kf.hooks.ElasticHook(None, 1)] if follows else []
            with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
                session.run(step)

    if follows:
        train()
        assert asked == [2]
        return
    with pytest.raises(kf.errors.PolicyError, match=r"Asks\.after_step: .*ElasticHook"):
        train()
    assert asked == []


def test_who_was_started_anew_has_asked_before(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = SizePlan("1:10,2:10")
    monkeypatch.setenv("KUNGFU_RESTARTS", "1")
    monkeypatch.setattr(ordinals.size_plans, "next", 0)
    plan.begin()
    for step in (5, 6, 10):
        plan.ask(step)
    assert asked == [2]
    plan.begin()  # another training
    plan.ask(0)
    assert asked == [2, 1]


def test_a_number_that_was_not_reached_is_named(
    asked: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    plan = SizePlan("1:10,4:10,2:10")
    for step in (0, 10):
        plan.ask(step)
    assert caplog.messages == []
    plan.ask(20)
    assert caplog.messages == [
        "at step 20 there should be 2 peers: the 4 of before have not come, there are 1"
    ]


def test_a_policys_last_wish_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(peer, "elastic", lambda: True)
    monkeypatch.setattr(peer, "propose_new_size", asked.append)
    training = Training()
    for size in (1, 1, 3, 3, 1, 1):  # there is one all the time
        training.propose_size(size)
    assert asked == [1, 3, 1]


def test_todays_size_can_be_wished_in_a_job_that_stays_as_it_is() -> None:
    assert not kf.resize(n=1)
    Training().propose_size(1)


def test_a_schedule_goes_on_where_a_backup_was_made(asked: list[int], tmp_path: Path) -> None:
    def train(*more) -> None:
        backup = tf.keras.callbacks.BackupAndRestore(str(tmp_path), save_freq=1)
        schedule = kf.callbacks.ElasticCallback("1:4,2:3,3:9")
        model = model_of(kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD()))
        model.optimizer.iterations.assign(100)  # of another training
        options = {"batch_size": 2, "epochs": 3, "verbose": 0}
        kf.elastic.fit(model, X, y=X[:, :1], callbacks=[backup, schedule, *more], **options)

    with pytest.raises(KeyboardInterrupt):
        train(Interrupted(5))
    assert asked == [1, 2]
    train()
    assert asked == [1, 2, 2, 3]


def test_a_schedule_goes_on_where_a_position_is(asked: list[int]) -> None:
    model = model_of(kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD()))
    model.optimizer.iterations.assign(5)
    schedule = kf.callbacks.ElasticCallback("1:4,2:3,3:9")
    options = {"batch_size": 2, "epochs": 3, "initial_epoch": 1, "initial_sample": 4, "verbose": 0}
    kf.elastic.fit(model, X, y=X[:, :1], callbacks=[schedule], **options)
    assert asked == [2, 3]


def test_a_schedule_goes_on_in_a_session_that_is_restored(asked: list[int], tmp_path: Path) -> None:
    def train(last: int) -> None:
        with tf.Graph().as_default():
            train_op = tf.compat.v1.train.get_or_create_global_step().assign_add(1)
            hooks = [kf.hooks.ElasticHook("1:4,2:3,3:9", last)]
            with tf.compat.v1.train.MonitoredTrainingSession(
                hooks=hooks, checkpoint_dir=str(tmp_path)
            ) as session:
                while not session.should_stop():
                    session.run(train_op)

    train(5)
    assert asked == [1, 2]
    train(9)
    assert asked == [1, 2, 2, 3]


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("1:100,4", r"at character 7, '4': that is not size:steps"),
        ("1:100,,2:3", r"at character 7, ''"),
        ("0:100", r"at character 1, '0:100': sizes and steps begin with 1"),
        ("1:3,x:4", r"at character 5, 'x:4'"),
    ],
)
def test_schedules_that_cannot_be_read(schedule: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        kf.callbacks.ElasticCallback(schedule)


def test_schedules_in_a_graph() -> None:
    sizes = [int(kf.ops.step_based_schedule("4:2,8:3,1:1", step)) for step in range(8)]
    assert sizes == [4, 4, 8, 8, 8, 1, 1, 1]
    assert int(kf.ops.step_based_schedule("3:1", tf.constant(7, tf.int64))) == 3
    with pytest.raises(ValueError, match="at character 5, '8'"):
        kf.ops.step_based_schedule("4:2,8", 0)


def test_operations_of_a_process_that_is_alone() -> None:
    for resize in (kf.ops.resize, tf.function(kf.ops.resize)):
        assert [bool(part) for part in resize(0)] == [False, False]
        assert [bool(part) for part in resize(1)] == [False, False]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        assert session.run(kf.ops.resize(0)) == (False, False)
    with pytest.raises(tf.errors.FailedPreconditionError, match="kungfu-run -w"):
        kf.ops.resize(2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="-1 peers"):
        kf.ops.resize(-1)
    with pytest.raises(tf.errors.FailedPreconditionError, match="kungfu-run"):
        resize_from_config_server()
