"""`kungfu_tf/upstream/versions.py` says which versions work; all others say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kungfu_tf.upstream import versions
from tests.versions import rows

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/index.md", "docs/install.md")
OLDEST, NEWEST = versions.OLDEST_TENSORFLOW, versions.NEWEST_TENSORFLOW
OLDEST_KERAS, NEWEST_KERAS = versions.OLDEST_KERAS_3, versions.NEWEST_KERAS_3


def text(version: tuple[int, int], patch: int | None = None) -> str:
    return ".".join(map(str, version if patch is None else (*version, patch)))


def next_minor(version: tuple[int, int], by: int = 1) -> tuple[int, int]:
    return version[0], version[1] + by


def range_of(oldest: tuple[int, int], newest: tuple[int, int]) -> str:
    return f"{text(oldest)} to {text(newest)}"


@pytest.fixture(scope="module")
def extras() -> list[list[Requirement]]:
    """What each extra that brings TensorFlow asks for: TensorFlow, and Keras."""
    lines = re.findall(
        r"^tensorflow\S* = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    return [[Requirement(name) for name in re.findall(r'"(.+?)"', line)] for line in lines]


def test_the_extras_take_the_tensorflows_that_work(extras: list[list[Requirement]]) -> None:
    assert [tensorflow.name for tensorflow, _ in extras] == ["tensorflow", "tensorflow-cpu"]
    for tensorflow, _ in extras:
        taken = tensorflow.specifier
        assert text(OLDEST, 0) in taken and text(NEWEST, 9) in taken
        assert text(next_minor(OLDEST, -1), 9) not in taken
        assert text(next_minor(NEWEST), 0) not in taken


def test_the_extras_take_the_keras_that_work(extras: list[list[Requirement]]) -> None:
    for _, keras in extras:
        assert keras.name == "keras"
        taken = keras.specifier
        for version in (versions.OLDEST_KERAS_2, OLDEST_KERAS, NEWEST_KERAS):
            assert text(version, 0) in taken and text(version, 9) in taken
        for minor in range(OLDEST_KERAS[1]):
            assert text((3, minor), 9) not in taken
        assert text(next_minor(NEWEST_KERAS), 0) not in taken


def test_the_matrix_goes_from_the_oldest_to_the_newest() -> None:
    released = [row for row in rows.MATRIX if not row.may_fail]
    tensorflows = {versions.major_and_minor(row.tensorflow) for row in released}
    assert (min(tensorflows), max(tensorflows)) == (OLDEST, NEWEST)
    keras = {versions.major_and_minor(row.keras) for row in released if row.keras != rows.LEGACY}
    assert (min(keras), max(keras)) == (OLDEST_KERAS, NEWEST_KERAS)


@pytest.mark.parametrize("page", PAGES)
def test_pages_say_the_same(page: str) -> None:
    pythons = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    needed = {range_of(OLDEST, NEWEST), range_of(OLDEST_KERAS, NEWEST_KERAS)}
    said = set(re.findall(r"\d\.\d+ to \d\.\d+", (ROOT / page).read_text()))
    assert needed <= said <= needed | {f"{pythons[0]} to {pythons[-1]}"}
