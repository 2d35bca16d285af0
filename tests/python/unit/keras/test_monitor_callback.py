"""MonitorCallback and the optimizers that measure, in a process that is alone."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf import errors, peer
from kungfu_tf.monitor import endpoint, http_server
from kungfu_tf.ops import noise_scale
from tests import ports

keras = tf.keras


def fit(optimizer, *callbacks):
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    return model.fit(
        *(np.ones([8, 2]), np.ones([8, 1])), batch_size=4, verbose=0, callbacks=list(callbacks)
    )


def test_one_peer_measures_nothing_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    noise_scale._warned.clear()
    with caplog.at_level(logging.WARNING):
        for optimizer in (
            kf.optimizers.MonitorGradientNoiseScaleOptimizer(keras.optimizers.SGD(0.1), 4),
            kf.optimizers.MonitorGradientVarianceOptimizer(keras.optimizers.SGD(0.1)),
        ):
            history = fit(optimizer, kf.callbacks.MonitorCallback()).history
            assert set(history) == {"loss", "step_time", "egress_rate", "ingress_rate"}
            assert history["step_time"][0] > 0 and history["egress_rate"] == [0]
    assert sum("nothing can be measured" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"device_batch_size": 0}, "device_batch_size must be positive, not 0"),
        ({"device_batch_size": 2.5}, "device_batch_size is a number of samples, not 2.5"),
        ({"device_batch_size": 1, "alpha": 1}, "not 1"),
        ({"device_batch_size": 1, "monitor_interval": 0}, "monitor_interval must be positive"),
        ({"device_batch_size": 1, "monitor_interval": 0.5}, "monitor_interval is a number"),
    ],
)
def test_arguments(arguments: dict, error: str) -> None:
    optimizer = keras.optimizers.SGD(0.1)
    with pytest.raises((TypeError, ValueError), match=error):
        kf.optimizers.MonitorGradientNoiseScaleOptimizer(optimizer, **arguments)
    kf.optimizers.SynchronousSGDOptimizer(optimizer)  # it is as it was
    with pytest.raises(ValueError, match="every_steps must be at least 1, not 0"):
        kf.hooks.MonitorHook(every_steps=0)


def test_a_step_that_fails_counts_nothing() -> None:
    with kf.Monitor() as monitor:
        with monitor.step():
            pass
        with pytest.raises(RuntimeError), monitor.step():
            raise RuntimeError
        assert monitor.steps == 1
        assert monitor.end_interval()["step_time"] > 0
        assert monitor.end_interval()["step_time"] == 0


def test_log_dir_may_be_on_any_file_system() -> None:
    pytest.importorskip("tensorboard")
    with kf.Monitor(log_dir="ram://bucket/logs") as monitor, monitor.step():
        pass
    assert tf.io.gfile.listdir("ram://bucket/logs") == ["rank0"]


def test_what_goes_on_from_a_backup_is_shown_from_its_step_on(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")

    class Interrupt(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise KeyboardInterrupt

    def train(*more) -> None:
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        backup = keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
        monitor = kf.callbacks.MonitorCallback(log_dir=str(tmp_path / "logs"))
        options = {"batch_size": 4, "epochs": 3, "verbose": 0}
        callbacks = [backup, monitor, *more]
        kf.elastic.fit(model, np.ones([8, 2]), y=np.ones([8, 1]), callbacks=callbacks, **options)

    with pytest.raises(KeyboardInterrupt):
        train(Interrupt())
    train()
    files = sorted((tmp_path / "logs" / "rank0").iterdir())
    records = tf.data.TFRecordDataset([str(path) for path in files])
    events = [tf.compat.v1.Event.FromString(record.numpy()) for record in records]
    assert [e.step for e in events for v in e.summary.value if v.tag == "step_time"] == [2, 4, 6]


def test_a_fit_that_fails_leaves_a_callback_that_works() -> None:
    pytest.importorskip("prometheus_client")
    monitor = kf.callbacks.MonitorCallback(port=0)
    asked = []

    class Fail(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            with urllib.request.urlopen(f"http://127.0.0.1:{monitor.port}", timeout=20) as answer:
                asked.append("kungfu_size 1.0" in answer.read().decode())
            if len(asked) == 1:
                raise RuntimeError("in the middle")

    fail = Fail()
    with pytest.raises(RuntimeError, match="in the middle"):
        fit(keras.optimizers.SGD(0.1), fail, monitor)
    fit(keras.optimizers.SGD(0.1), fail, monitor)
    assert asked == [True, True] and monitor.port is None


TWO_ENDPOINTS = """
from kungfu_tf.monitor import endpoint
served = [endpoint.Endpoint({port}, "127.0.0.1", None) for _ in range(2)]
for one in served:
    one.open()
    print("at", one.port)
"""


@pytest.mark.parametrize("flags", [[], ["-w"]])
def test_a_port_that_is_taken_is_passed_over_where_peers_come_and_go(flags: list[str]) -> None:
    pytest.importorskip("prometheus_client")
    port, after = ports.take(2)
    program = [sys.executable, "-c", TWO_ENDPOINTS.format(port=port)]
    command = [sys.executable, "-m", "kungfu_tf.launcher", *flags, "-np", "1", *program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert f"at {port}\n" in ended.stdout, ended.stderr
    assert (f"at {after}\n" in ended.stdout) == bool(flags)
    taken = f"rank 0's monitor cannot answer at 127.0.0.1:{port}: Address already in use"
    assert (taken in ended.stderr) == (not flags)


@pytest.mark.parametrize("port", [-5, 65536])
def test_a_port_that_cannot_be(port: int) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"from 0 to 65535, not {port}"):
        kf.Monitor(port=port)


def test_a_port_beyond_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr(peer, "local_rank", lambda: 1)
    with pytest.raises(errors.InvalidArgumentError, match="local rank 1 gets port 65536"):
        endpoint.Endpoint(65535, "127.0.0.1", None).open()


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@pytest.mark.skipif(not has_ipv6(), reason="needs IPv6's loopback")
def test_an_address_may_be_of_ipv6() -> None:
    pytest.importorskip("prometheus_client")
    with contextlib.ExitStack() as stack:
        monitor = stack.enter_context(kf.Monitor(port=0, address="::1"))
        url = f"http://[::1]:{monitor.port}"
        answer = stack.enter_context(urllib.request.urlopen(url, timeout=20))
        assert "kungfu_size 1.0" in answer.read().decode()


@pytest.mark.parametrize("what", [b"", b"GET / HTTP/1.0\r\nX: ", b"GET / HTTP/1.0\r\n\r\n"])
def test_who_may_ask_is_answered_whoever_else_comes_again_and_again(what: bytes) -> None:
    pytest.importorskip("prometheus_client")
    served = endpoint.Endpoint(0, "127.0.0.1", "secret")
    served.open()
    request = urllib.request.Request(
        f"http://127.0.0.1:{served.port}", headers={"Authorization": "Bearer secret"}
    )
    over = threading.Event()

    def comes_again_and_again() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError), socket.socket() as other:
                other.settimeout(1)
                other.connect(("127.0.0.1", served.port))
                other.sendall(what)
                other.recv(1)

    others = [threading.Thread(target=comes_again_and_again, daemon=True) for _ in range(40)]
    try:
        for thread in others:
            thread.start()
        for _ in range(20):
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert "kungfu_size 1.0" in answer.read().decode()
    finally:
        over.set()
        for thread in others:
            thread.join(30)
        served.close()


def test_who_asks_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr(http_server.Handler, "timeout", 1.0)  # seconds, many times a byte's
    served = endpoint.Endpoint(0, "127.0.0.1", None)
    served.open()
    with contextlib.ExitStack() as stack:
        stack.callback(served.close)
        asks = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), 0.05))
        asks.sendall(b"GET / HTTP/1.0\r\nX: ")
        until, is_closed = time.monotonic() + 20, False
        while not is_closed and time.monotonic() < until:
            with contextlib.suppress(TimeoutError):  # no answer yet
                try:
                    asks.sendall(b"x")
                    is_closed = asks.recv(1) == b""
                except ConnectionError:
                    is_closed = True
        assert is_closed
    assert "TimeoutError" not in capfd.readouterr().err
