"""The tested versions, which README promises, in rows of (Python, TensorFlow, Keras)."""

from __future__ import annotations

import dataclasses

NIGHTLY = "nightly"
MAIN_PYTHON = "3.11"
NEWEST_TENSORFLOW = "2.21.0"
NEWEST_KERAS = "3.15.1"
LEGACY = "legacy"
"""Keras 2: TensorFlow 2.15's own, and tf-keras with later ones."""
OWN_KERAS_2 = "2.15.1"
"""The TensorFlow that has Keras 2."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One set of versions.

    Attributes:
        keras: A version of Keras 3, NIGHTLY, or LEGACY.
        tensorflow: A version, or NIGHTLY.
        python: Major and minor version.
        numpy: Its version; "" for the one that pip installs with TensorFlow.
    """

    keras: str
    tensorflow: str = NEWEST_TENSORFLOW
    python: str = MAIN_PYTHON
    numpy: str = ""

    @property
    def may_fail(self) -> bool:
        """Whether a failure is only reported: what is not released may be broken."""
        return NIGHTLY in (self.keras, self.tensorflow)

    def matches(self, keras: str, tensorflow: str, python: str) -> bool:
        """Whether the row has these versions; "" stands for any version."""
        pairs = ((keras, self.keras), (tensorflow, self.tensorflow), (python, self.python))
        return all(_is_of(version, wanted) for wanted, version in pairs)


def _is_of(version: str, wanted: str) -> bool:
    return not wanted or version == wanted or version.startswith(f"{wanted}.")


# The last patch of each minor version.
KERAS = (
    *("3.3.3", "3.4.1", "3.5.0", "3.6.0", "3.7.0", "3.8.0", "3.9.2"),
    *("3.10.0", "3.11.3", "3.12.4", "3.13.2", "3.14.1", NEWEST_KERAS),
)
# With the Keras that was the newest at its release, but at least the oldest that is supported.
TENSORFLOW = {
    "2.16.2": "3.3.3",
    "2.17.1": "3.4.1",
    "2.18.1": "3.6.0",
    "2.19.1": "3.9.2",
    "2.20.0": "3.11.3",
}

# Keras before 3.5 uses names that NumPy 2 does not have.
OLD_NUMPY = "1.26.4"


def with_newest_tensorflow(keras: str) -> Row:
    """The row of a version of Keras 3."""
    is_old = tuple(map(int, keras.split(".")[:2])) < (3, 5)
    return Row(keras, numpy=OLD_NUMPY if is_old else "")


MATRIX = (
    *(with_newest_tensorflow(keras) for keras in KERAS),
    Row(LEGACY, OWN_KERAS_2),
    *(Row(keras, tensorflow) for tensorflow, keras in TENSORFLOW.items()),
    *(Row(NEWEST_KERAS, tensorflow) for tensorflow in TENSORFLOW),
    *(Row(LEGACY, tensorflow) for tensorflow in (*TENSORFLOW, NEWEST_TENSORFLOW)),
    Row("3.12.4", python="3.10"),
    Row(LEGACY, OWN_KERAS_2, python="3.10"),
    Row(NEWEST_KERAS, python="3.12"),
    Row(NEWEST_KERAS, python="3.13"),
    Row(NEWEST_KERAS, numpy=OLD_NUMPY),
    Row(NIGHTLY),
    Row(NEWEST_KERAS, NIGHTLY),
    Row(NIGHTLY, NIGHTLY),
)

# It must be refused, in one sentence, before anything is trained.
TOO_OLD = Row("3.2.1", numpy=OLD_NUMPY)

# The rows that each change is tested with: the oldest, a middle one, Python 3.10's newest, and the
# newest.
SLICE = tuple(map(with_newest_tensorflow, ("3.3.3", "3.8.0", "3.12.4", NEWEST_KERAS)))
