"""What each peer sends in a step by each codec, as the core counts it and as its formula has it.

kungfu-run -np 4 python compression.py REPORT

Rank 0 writes a line of JSON for each codec to REPORT: method, codec, and bytes of a peer and step,
`sent` and `formula`, the mean of all peers. It counts what goes over sockets, headers included.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import kungfu_tf as kf
from kungfu_tf.compression import Cast, ErrorFeedback, Int4, Int8, PowerSGD
from kungfu_tf.native import libraries
from kungfu_tf.optimizers import DiLoCoOptimizer, SynchronousSGDOptimizer

SHAPES = [(512, 512), (512,)] * 3  # 3 MiB
STEPS, EVERY = 10, 10
CODECS: list[Any] = [
    None,
    Cast("bfloat16"),
    Int8(),
    Int4(),
    ErrorFeedback(Int4()),
    PowerSGD(rank=4),
    PowerSGD(rank=2),
]


def bytes_of(codec: Any) -> float:
    """What an exchange takes, of which a peer sends 2·(p − 1)/p."""
    elements = sum(math.prod(shape) for shape in SHAPES)
    if isinstance(codec, ErrorFeedback):
        return bytes_of(codec.codec)
    if isinstance(codec, Cast):
        return 2 * elements
    if isinstance(codec, (Int4, Int8)):
        return (codec.block * codec.bits // 8 + 4) * math.ceil(elements / codec.block)
    if isinstance(codec, PowerSGD):
        of_each = [sum(s) * codec.rank if len(s) == 2 else math.prod(s) for s in SHAPES]
        return 4 * sum(of_each)
    return 4 * elements


def sent_in_steps(optimizer: Any) -> float:
    """The bytes of a peer and step, the mean of all peers."""
    variables = [tf.Variable(tf.zeros(shape)) for shape in SHAPES]

    random = np.random.default_rng(kf.rank())
    gradients = [tf.constant(random.normal(size=v.shape), tf.float32) for v in variables]

    @tf.function
    def step() -> None:
        optimizer.apply_gradients(list(zip(gradients, variables, strict=True)))

    for _ in range(EVERY):  # the first of which agrees on what is exchanged; to a meeting
        step()
    kf.barrier()
    before = libraries.statistics()["bytes_sent"]
    for _ in range(STEPS):
        step()
    sent = libraries.statistics()["bytes_sent"] - before
    kf.barrier()
    return float(kf.ops.all_reduce(np.float64(sent / STEPS), op="mean", name="sent"))


def main() -> None:
    report = Path(sys.argv[1])
    peers = 2 * (kf.size() - 1) / kf.size()
    lines = []
    for codec in CODECS:
        for name, wrap, every in (
            ("SynchronousSGD", SynchronousSGDOptimizer, 1),
            (f"DiLoCo, every={EVERY}", lambda o, **k: DiLoCoOptimizer(o, every=EVERY, **k), EVERY),
        ):
            optimizer = wrap(tf.keras.optimizers.SGD(0.01), compression=codec)
            line = {
                "method": name,
                "codec": "none" if codec is None else repr(codec),
                "sent": sent_in_steps(optimizer),
                "formula": peers * bytes_of(codec) / every,
            }
            lines.append(json.dumps(line))
    if kf.is_root():
        report.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
