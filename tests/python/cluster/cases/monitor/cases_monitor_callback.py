"""What MonitorCallback shows, and to whom."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import math
import tempfile
import urllib.error
from pathlib import Path

import numpy as np
import support
import tensorflow as tf
import training
from monitors import ask, steps_in

import kungfu_tf as kf
from kungfu_tf.monitor import measurements

JOBS = [{"np": 2}]
BATCH = 8
STEPS = 4


class Seen(tf.keras.callbacks.Callback):
    """What a callback that stands before it is told."""

    def __init__(self, look=None):
        super().__init__()
        self.batches, self.epochs, self.looked, self._look = [], [], [], look

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(dict(logs))
        if self._look:
            self.looked.append(self._look())

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(dict(logs))


def fit(optimizer, *callbacks, epochs=2, **options):
    model = training.dense_model("float32")
    x, y = training.samples(BATCH * STEPS * kf.size(), "float32")
    dataset = kf.data.shard(tf.data.Dataset.from_tensor_slices((x, y))).batch(BATCH)
    model.compile(optimizer, "mse", **options)
    return model.fit(dataset, epochs=epochs, verbose=0, callbacks=list(callbacks))


def noise_scale():
    return kf.optimizers.MonitorGradientNoiseScaleOptimizer(tf.keras.optimizers.SGD(0.01), BATCH)


def case_logs():
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log.csv"
        seen, optimizer = Seen(), noise_scale()
        logger = tf.keras.callbacks.CSVLogger(str(path))
        history = fit(optimizer, logger, seen, kf.callbacks.MonitorCallback()).history
        if kf.is_root():
            rows = list(csv.DictReader(path.open()))
            assert [float(row["noise_scale"]) for row in rows] == history["noise_scale"]
    scales = [logs["noise_scale"] for logs in seen.batches]
    assert len(scales) == 2 * STEPS and len(set(scales)) > 2
    assert history["noise_scale"] == [scales[STEPS - 1], scales[-1]]
    assert kf.ops.consensus(np.array(scales))
    final = optimizer.kungfu_algorithm.metrics["noise_scale"].numpy()
    assert final == np.float32(scales[-1])
    for name in ("step_time", "egress_rate", "ingress_rate"):
        assert all(value > 0 for value in history[name]), (name, history[name])


def case_executions_of_several_steps():
    seen = Seen()
    optimizer = kf.optimizers.MonitorGradientVarianceOptimizer(tf.keras.optimizers.SGD(0.01))
    history = fit(optimizer, kf.callbacks.MonitorCallback(), seen, steps_per_execution=2).history
    assert len(seen.batches) == STEPS and history["step_time"][0] > 0
    assert all(logs["gradient_variance"] > 0 for logs in seen.batches)


def monitored():
    return kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.01), monitor=True)


def case_a_plain_optimizer_has_no_metrics():
    history = fit(monitored(), kf.callbacks.MonitorCallback(), epochs=1).history
    assert "noise_scale" not in history and history["step_time"][0] > 0
    assert kf.calc_stats() > 0


class Totals(tf.keras.callbacks.Callback):
    """Of the strategy in use, before the first epoch and after each."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_begin(self, logs=None):
        self.seen.append(measurements.moved())

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(measurements.moved())


def case_throughput_and_latency():
    """That of an epoch, whatever there was before; and nothing of it where nobody asks."""
    fit(monitored(), epochs=1)
    totals = Totals()
    history = fit(monitored(), kf.callbacks.MonitorCallback(latencies=True), totals).history
    seen = [
        (after.bytes - before.bytes) / (after.seconds - before.seconds)
        for before, after in itertools.pairwise(totals.seen)
    ]
    [name] = [name for name in history if name.startswith("throughput_")]
    assert name == f"throughput_{measurements.strategy()}"
    np.testing.assert_allclose(history[name], seen, rtol=1e-9)
    assert len(history["peer_latency"]) == 2
    assert all(0 < latency < math.inf for latency in history["peer_latency"])
    history = fit(noise_scale(), kf.callbacks.MonitorCallback(), epochs=1).history
    assert not [name for name in history if name.startswith(("throughput", "peer_latency"))]


def case_tensorboard():
    if importlib.util.find_spec("tensorboard") is None:
        callback = kf.callbacks.MonitorCallback(log_dir="logs")
        message = support.raised_by(kf.errors.LibraryError, callback.on_train_begin)
        assert "pip install tensorboard" in message
        return
    with tempfile.TemporaryDirectory() as directory:
        fit(monitored(), kf.callbacks.MonitorCallback(log_dir=directory, latencies=True))
        fit(noise_scale(), kf.callbacks.MonitorCallback(log_dir=directory))
        written = steps_in(directory)
    assert len(written["noise_scale"]) == 2 * STEPS and len(written["step_time"]) == 4
    assert len(written["peer_latency"]) == 2
    assert len(written[f"throughput_{measurements.strategy()}"]) == 2


def case_prometheus():
    callback = kf.callbacks.MonitorCallback(port=0, token="secret", latencies=True)
    if importlib.util.find_spec("prometheus_client") is None:
        message = support.raised_by(kf.errors.LibraryError, callback.on_train_begin)
        assert "pip install kungfu_tf[monitor]" in message
        return
    assert callback.port is None
    fit(monitored(), epochs=1)
    seen = Seen(look=lambda: (ask(callback.port, "secret"), refused(callback.port)))
    fit(noise_scale(), seen, callback, epochs=1)
    assert callback.port is None
    assert [code for _, code in seen.looked] == [401] * STEPS
    metrics = seen.looked[-1][0]
    other = kf.peer.name_of(1 - kf.rank())
    for way in measurements.WAYS:
        labels = f'{{peer="{other}",way="{way}"}}'
        for direction in ("egress", "ingress"):
            is_used = metrics[f"{direction}_total_bytes{labels}"] > 0
            assert is_used == (way == "shared_memory"), metrics
            assert f"{direction}_rate_bytes_per_sec{labels}" in metrics
    assert 0 < metrics[f'kungfu_peer_latency_seconds{{peer="{other}"}}'] < math.inf
    name = measurements.strategy()
    moved = measurements.throughputs()[name]
    assert metrics[f'kungfu_strategy_bytes_total{{strategy="{name}"}}'] == moved.bytes
    assert metrics[f'kungfu_strategy_seconds_total{{strategy="{name}"}}'] == moved.seconds
    assert metrics["kungfu_step_seconds_count"] == STEPS
    assert metrics["kungfu_step_seconds_sum"] > 0
    count = metrics['kungfu_collective_seconds_bucket{le="+Inf"}']
    assert count >= STEPS and metrics["kungfu_collective_seconds_count"] == count
    assert metrics["kungfu_collective_bytes_total"] > 0
    assert metrics["kungfu_size"] == 2 and metrics["kungfu_rank"] == kf.rank()
    assert metrics["kungfu_membership_version"] == kf.membership_version()
    assert math.isclose(metrics["kungfu_noise_scale"], seen.batches[-1]["noise_scale"])


def refused(port):
    try:
        ask(port, "guessed")
    except urllib.error.HTTPError as error:
        return error.code
    return 0


def case_others_need_a_token():
    message = support.raised_by(
        kf.errors.InvalidArgumentError,
        lambda: kf.callbacks.MonitorCallback(port=0, address="0.0.0.0"),
    )
    assert "KUNGFU_MONITOR_TOKEN" in message
