"""What a monitor shows: to who asks as Prometheus does, and in the files for TensorBoard."""

from __future__ import annotations

import collections
import urllib.request
from pathlib import Path

import tensorflow as tf

import kungfu_tf as kf


def ask(port: int, token: str | None = None) -> dict[str, float]:
    """Name with labels → value."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=20) as response:
        text = response.read().decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def steps_in(directory: str) -> dict[str, list[int]]:
    """At which steps this peer has written what, by tags."""
    name = f"rank*-{kf.uid():016x}" if kf.peer.elastic() else f"rank{kf.rank()}"
    [folder] = Path(directory).glob(name)
    files = sorted(str(path) for path in folder.iterdir())
    found = collections.defaultdict(list)
    for record in tf.data.TFRecordDataset(files):
        event = tf.compat.v1.Event.FromString(record.numpy())
        for value in event.summary.value:
            found[value.tag].append(event.step)
    return found
