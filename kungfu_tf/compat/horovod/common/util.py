"""Helpers that programs import."""

from __future__ import annotations

import itertools
from typing import Any

import tensorflow as tf

__all__ = [
    "gloo_built",
    "gpu_available",
    "is_iterable",
    "is_version_greater_equal_than",
    "mpi_built",
    "nccl_built",
    "num_rank_is_power_2",
    "split_list",
]


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether TensorFlow sees a GPU."""
    del ext_base_name, verbose
    return bool(tf.config.list_physical_devices("GPU"))


def mpi_built(verbose: bool = False) -> bool:
    """Whether MPI is there: it is not."""
    del verbose
    return False


def gloo_built(verbose: bool = False) -> bool:
    """Whether peers need no MPI: they do not."""
    del verbose
    return True


def nccl_built(verbose: bool = False) -> bool:
    """Whether NCCL is there: it is not."""
    del verbose
    return False


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether a number is a power of 2."""
    return num_rank > 0 and num_rank.bit_count() == 1


def split_list(l: list[Any], n: int) -> list[list[Any]]:  # noqa: E741 (Horovod's)
    """A list in n parts of about the same length; the first ones are the longer ones."""
    length, longer = divmod(len(l), n)
    ends = [i * length + min(i, longer) for i in range(n + 1)]
    return [l[begin:end] for begin, end in itertools.pairwise(ends)]


def is_iterable(x: Any) -> bool:
    """Whether it can be iterated over."""
    return hasattr(x, "__iter__") or hasattr(x, "__getitem__")


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether a version is at least another one, "major.minor.patch".

    Raises:
        ValueError: If one of them is no text, or `target` has not three parts.
    """
    if not isinstance(ver, str) or not isinstance(target, str):
        raise ValueError(f"versions are texts, not {ver!r} and {target!r}")
    if target.count(".") != 2:
        raise ValueError(f"a version has three parts, major.minor.patch, not {target!r}")
    return _numbers(ver) >= _numbers(target)


def _numbers(version: str) -> list[int]:
    digits = ("".join(c for c in part if c.isdigit()) for part in version.split("-")[0].split("."))
    return [int(part or 0) for part in digits][:3]
