"""The shapes of the gradients of models that people train, float32."""

from __future__ import annotations

import math
from collections.abc import Iterator

Shape = list[int]


def resnet50() -> Iterator[Shape]:
    """161 tensors, 97.5 MiB (He et al., CVPR 2016): kernels without bias, then scale and shift."""

    def convolution(size: int, inputs: int, outputs: int) -> Iterator[Shape]:
        yield from ([size, size, inputs, outputs], [outputs], [outputs])

    yield from convolution(7, 3, 64)
    inputs = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            if block == 0:
                yield from convolution(1, inputs, 4 * width)
            yield from convolution(1, inputs, width)
            yield from convolution(3, width, width)
            yield from convolution(1, width, 4 * width)
            inputs = 4 * width
    yield from ([2048, 1000], [1000])


def vgg16() -> Iterator[Shape]:
    """32 tensors, 527.8 MiB (Simonyan and Zisserman, ICLR 2015)."""
    inputs = 3
    for convolutions, width in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(convolutions):
            yield from ([3, 3, inputs, width], [width])
            inputs = width
    for rows, columns in ((7 * 7 * 512, 4096), (4096, 4096), (4096, 1000)):
        yield from ([rows, columns], [columns])


def bert_base() -> Iterator[Shape]:
    """199 tensors, 417.6 MiB (Devlin et al., NAACL 2019): the encoder with its pooler."""
    width = 768

    def dense(rows: int, columns: int) -> Iterator[Shape]:
        yield from ([rows, columns], [columns])

    yield from ([30522, width], [512, width], [2, width], [width], [width])
    for _ in range(12):
        for _ in range(4):  # queries, keys, values, what comes out
            yield from dense(width, width)
        yield from ([width], [width])
        yield from dense(width, 4 * width)
        yield from dense(4 * width, width)
        yield from ([width], [width])
    yield from dense(width, width)


SETS = {"resnet50": resnet50, "vgg16": vgg16, "bert-base": bert_base}


def as_arrays(name: str) -> str:
    """A set as programs that do without TensorFlow take it (arrays.h)."""
    return f"{name}=" + ",".join(str(4 * math.prod(shape)) for shape in SETS[name]())
