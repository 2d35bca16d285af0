"""launch: what it returns, raises and prints, in a process in which TensorFlow works already."""

from __future__ import annotations

import atexit
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.function_launch import channel

tf.constant(1.0) + 1.0  # TensorFlow's threads run: a fork would be a mistake


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUNGFU_GRACE", "1")


def failure(fn, np, **options) -> kf.errors.PeerFailedError:
    with pytest.raises(kf.errors.PeerFailedError) as caught:
        kf.launch(fn, np, **options)
    return caught.value


def test_results_come_by_rank():
    offset = 40

    def fn(rank):
        return rank, offset + kf.rank(), kf.size(), sorted(k for k in os.environ if "KUNGFU" in k)

    results = kf.launch(fn, np.int64(3))
    assert [result[:3] for result in results] == [(rank, 40 + rank, 3) for rank in range(3)]
    for _, _, _, names in results:
        assert {"KUNGFU_SECRET", "KUNGFU_SOCKET_DIR", "KUNGFU_CONTROL", "KUNGFU_RUNNER"} <= {*names}


def test_the_processes_meet_and_arrays_travel():
    scale = np.arange(3.0)

    def fn(rank):
        return kf.ops.all_reduce(scale * (rank + 1), op="sum").numpy()

    for result in kf.launch(fn, 2):
        np.testing.assert_array_equal(result, scale * 3)


def test_a_model_keeps_its_wrapped_optimizer_on_the_way():
    keras = tf.keras
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    optimizer = kf.optimizers.SynchronousSGDOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer, "mse")

    def fn(rank):
        x = np.eye(3, dtype="float32") * (rank + 1)
        model.fit(x, x[:, :1], verbose=0)
        return model.get_weights()

    before = model.get_weights()
    first, second = kf.launch(fn, 2)
    assert all(map(np.array_equal, first, second))
    assert not any(map(np.array_equal, first, before))


def test_a_process_is_a_new_interpreter_with_our_path():
    def fn(rank):
        return os.getpid(), sys.path, sys.argv, "tensorflow" in sys.modules

    [(pid, path, argv, has_tensorflow)] = kf.launch(fn, 1)
    assert pid != os.getpid()
    assert (path, argv, has_tensorflow) == (sys.path, ["-c"], False)


def test_output_goes_to_the_streams_of_python(capsys):
    def fn(rank):
        print("out", "é" * rank)
        print("err", rank, file=sys.stderr)
        sys.stdout.write("no newline")

    assert kf.launch(fn, 2) == [None, None]
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == [
        *("[0] no newline", "[0] out "),
        *("[1] no newline", "[1] out é"),
    ]
    complaints = [line for line in err.splitlines() if "the peers share" not in line]
    assert sorted(complaints) == ["[0] err 0", "[1] err 1"]


def test_much_output_arrives_in_whole_lines(capsys):
    def fn(rank):
        for number in range(2000):
            print(number, "x" * (number % 97), file=(sys.stdout, sys.stderr)[number % 2])

    kf.launch(fn, 2)
    for parity, text in enumerate(capsys.readouterr()):
        for rank in range(2):
            mine = [line for line in text.splitlines() if line.startswith(f"[{rank}]")]
            numbers = range(parity, 2000, 2)
            assert mine == [f"[{rank}] {number} {'x' * (number % 97)}" for number in numbers]


def test_an_exception_comes_with_rank_host_and_traceback():
    def inner():
        raise ZeroDivisionError("on purpose")

    def fn(rank):
        return inner() if rank == 1 else kf.barrier()

    error = failure(fn, 2)
    assert (error.rank, error.host) == (1, "127.0.0.1")
    assert isinstance(error.__cause__, ZeroDivisionError)
    text = str(error)
    assert text.startswith("rank 1 on 127.0.0.1 (pid ")
    assert "in inner\n" in text
    assert text.rstrip().endswith("ZeroDivisionError: on purpose")
    assert "kungfu_tf/function_launch" not in text


def test_an_exception_that_cannot_be_pickled_is_told_in_words():
    class OddError(Exception):
        def __init__(self):
            super().__init__("odd")
            self.lock = threading.Lock()

    def fn(rank):
        raise OddError

    error = failure(fn, 1)
    assert error.__cause__ is None
    assert "OddError: odd" in str(error)


def test_an_exception_that_cannot_be_made_here_is_told_in_words():
    class OddError(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} and {two}")

    def fn(rank):
        raise OddError(1, 2)

    error = failure(fn, 1)
    assert error.__cause__ is None
    assert "OddError: 1 and 2" in str(error)


def test_a_process_that_is_killed_is_named():
    def fn(rank):
        print("last words", flush=True)
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        kf.barrier()

    error = failure(fn, 2)
    assert error.rank == 1
    assert "killed by SIGKILL before its function returned" in str(error)
    assert "last words" in str(error)


def test_a_process_that_exits_is_named():
    assert "SystemExit: 3" in str(failure(lambda rank: sys.exit(3), 1))
    silent = failure(lambda rank: os._exit(0), 1)
    assert "exit code 0 before its function returned" in str(silent)
    late = failure(lambda rank: atexit.register(os._exit, 4) and None, 1)
    assert "exit code 4 after its function returned" in str(late)


def test_a_failure_is_none_the_less_one_if_the_process_ends_well():
    def fn(rank):
        atexit.register(os._exit, 0)
        raise ValueError("on purpose")

    assert "ValueError: on purpose" in str(failure(fn, 1))


def test_what_cannot_be_sent_is_named():
    lock = threading.Lock()

    def fn(rank):
        return lock

    with pytest.raises(kf.errors.InvalidArgumentError, match=r"fn .* uses 'lock', a _thread\.lock"):
        kf.launch(fn, 1)


def test_what_cannot_be_sent_back_is_named():
    def fn(rank):
        return threading.Lock()

    error = failure(fn, 1)
    assert isinstance(error.__cause__, kf.errors.InvalidArgumentError)
    assert "fn returned cannot be sent back, a _thread.lock" in str(error)


def test_a_result_that_cannot_be_read_here_is_named():
    class Odd:
        def __reduce__(self):
            return int, ("odd",)

    with pytest.raises(kf.errors.InvalidArgumentError, match="rank 0 returned cannot be unpickled"):
        kf.launch(lambda rank: Odd(), 1)


def test_timeout():
    def fn(rank):
        if rank == 1:
            signal.pause()

    with pytest.raises(kf.errors.DeadlineExceededError, match=r"timeout of 10 s .* rank 1 had not"):
        kf.launch(fn, 2, timeout=10)


@pytest.mark.parametrize(
    ("fn", "np", "timeout", "error"),
    [
        (3, 2, None, TypeError),
        (print, 1.5, None, TypeError),
        (print, "2", None, TypeError),
        (print, 0, None, ValueError),
        (print, -1, None, ValueError),
        (print, 1, 0, ValueError),
    ],
)
def test_arguments_are_checked(fn, np, timeout, error):
    with pytest.raises(error, match="launch: "):
        kf.launch(fn, np, timeout=timeout)


@pytest.fixture
def descriptors() -> Iterator[Callable[[int], None]]:
    """Sets the limit of open files until the test ends."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_processes_than_descriptors_are_refused(descriptors):
    descriptors(500)
    with pytest.raises(kf.errors.ResourceExhaustedError, match="1000 processes need 1002"):
        kf.launch(print, 1000)


def test_more_processes_than_ports_are_refused(descriptors):
    descriptors(4000)
    with pytest.raises(kf.errors.FailedPreconditionError, match="no room for 2000 peers"):
        kf.launch(print, 2000)


def test_a_peer_may_launch_one_process_but_not_several():
    def several(rank):
        return kf.launch(lambda inner: inner, 2)

    def one(rank):
        return kf.launch(lambda inner: (rank, inner, kf.size()), 1)

    error = failure(several, 1)
    assert isinstance(error.__cause__, kf.errors.FailedPreconditionError)
    assert "is already a peer of a job" in str(error)
    assert kf.launch(one, 2) == [[(0, 0, 1)], [(1, 0, 1)]]


def test_a_stream_that_breaks_ends_the_job(monkeypatch):
    class Broken:
        def write(self, text):
            raise OSError("the reader has gone")

    def fn(rank):
        print("ready", flush=True)
        signal.pause()

    monkeypatch.setattr(sys, "stdout", Broken())
    with pytest.raises(OSError, match="the reader has gone"):
        kf.launch(fn, 2)


def test_from_another_thread():
    results = []
    thread = threading.Thread(target=lambda: results.extend(kf.launch(lambda rank: rank, 2)))
    thread.start()
    thread.join(60)
    assert results == [0, 1]


def test_a_record_that_was_cut_off_is_none():
    with channel.opened(1) as files:
        [result] = files.results
        assert channel.read(result) is None
        channel.write(result, b"abc", b"def")
        assert channel.read(result) == b"abcdef"
        os.truncate(result, 10)
        assert channel.read(result) is None
        assert os.fstat(result).st_mode & 0o777 == 0o600
        assert os.fstat(result).st_nlink == 0


def test_the_cause_is_shown_with_the_error():
    def fn(rank):
        raise KeyError("x")

    assert "KeyError: 'x'\n\nThe above exception was the direct cause" in "".join(
        traceback.format_exception(failure(fn, 1))
    )
