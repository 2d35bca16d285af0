"""What MonitorCallback shows, and to whom."""

from __future__ import annotations

import csv
import importlib.util
import math
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import support
import tensorflow as tf
import training

import kungfu_tf as kf

JOBS = [{"np": 2, "env": {"KUNGFU_DIRECT": "off"}}]
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


def case_a_plain_optimizer_has_no_metrics():
    history = fit(
        kf.optimizers.SynchronousSGDOptimizer(tf.keras.optimizers.SGD(0.01), monitor=True),
        kf.callbacks.MonitorCallback(),
        epochs=1,
    ).history
    assert "noise_scale" not in history and history["step_time"][0] > 0
    assert kf.calc_stats() > 0


def case_tensorboard():
    if importlib.util.find_spec("tensorboard") is None:
        callback = kf.callbacks.MonitorCallback(log_dir="logs")
        message = support.raised_by(kf.errors.LibraryError, callback.on_train_begin)
        assert "pip install tensorboard" in message
        return
    with tempfile.TemporaryDirectory() as directory:
        fit(noise_scale(), kf.callbacks.MonitorCallback(log_dir=directory))
        [file] = Path(directory, f"rank{kf.rank()}").iterdir()
        tags = [
            value.tag
            for record in tf.data.TFRecordDataset(str(file))
            for value in tf.compat.v1.Event.FromString(record.numpy()).summary.value
        ]
    assert tags.count("noise_scale") == 2 * STEPS and tags.count("step_time") == 2


def metrics_of(text):
    """Name with labels → value."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def ask(port, token=None):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=20) as response:
        return metrics_of(response.read().decode())


def case_prometheus():
    callback = kf.callbacks.MonitorCallback(port=0, token="secret")
    if importlib.util.find_spec("prometheus_client") is None:
        message = support.raised_by(kf.errors.LibraryError, callback.on_train_begin)
        assert "pip install kungfu_tf[monitor]" in message
        return
    assert callback.port is None
    seen = Seen(look=lambda: (ask(callback.port, "secret"), refused(callback.port)))
    fit(noise_scale(), seen, callback, epochs=1)
    assert callback.port is None
    assert [code for _, code in seen.looked] == [401] * STEPS
    metrics = seen.looked[-1][0]
    other = kf.peer.name_of(1 - kf.rank())
    assert metrics[f'egress_total_bytes{{peer="{other}"}}'] > 0
    assert metrics[f'ingress_total_bytes{{peer="{other}"}}'] > 0
    assert f'egress_rate_bytes_per_sec{{peer="{other}"}}' in metrics
    assert metrics["kungfu_step_seconds_count"] == STEPS
    assert metrics["kungfu_step_seconds_sum"] > 0
    count = metrics['kungfu_collective_seconds_bucket{le="+Inf"}']
    assert count >= STEPS and metrics["kungfu_collective_seconds_count"] == count
    assert metrics["kungfu_collective_bytes_total"] > 0
    assert metrics["kungfu_size"] == 2 and metrics["kungfu_rank"] == kf.rank()
    assert metrics["kungfu_epoch"] == kf.epoch()
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
