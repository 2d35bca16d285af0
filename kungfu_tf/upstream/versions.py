"""The versions of Keras and TensorFlow that are supported, and the error for any other."""

from __future__ import annotations

from kungfu_tf import errors

OLDEST_TENSORFLOW, NEWEST_TENSORFLOW = (2, 15), (2, 21)
OLDEST_KERAS_3, NEWEST_KERAS_3 = (3, 3), (3, 15)
OLDEST_KERAS_2 = (2, 15)
"""The first and last minor versions that are tested. A newer one is not refused: it may work."""

SUPPORTED = (
    "TensorFlow {}.{} to {}.{}, with Keras {}.{} to {}.{}, Keras 2.15 or tf-keras 2.16 to {}.{}"
).format(
    *OLDEST_TENSORFLOW,
    *NEWEST_TENSORFLOW,
    *OLDEST_KERAS_3,
    *NEWEST_KERAS_3,
    *NEWEST_TENSORFLOW,
)


def check_keras(package: str, version: str) -> None:
    """Checks that this version of Keras is supported.

    Args:
        package: The name of the package, "keras" or "tf_keras".
        version: The version, such as "3.15.1" or "3.16.0.dev2026102704".

    Raises:
        UnsupportedVersionError: If it is too old.
    """
    found = major_and_minor(version)
    oldest = OLDEST_KERAS_3 if found[0] >= 3 else OLDEST_KERAS_2
    if found < oldest:
        raise unsupported(f"{package} {version}", f"it is older than {oldest[0]}.{oldest[1]}")


def check_tensorflow(version: str) -> None:
    """Checks that this version of TensorFlow is supported.

    Raises:
        UnsupportedVersionError: If it is too old.
    """
    oldest = OLDEST_TENSORFLOW
    if major_and_minor(version) < oldest:
        raise unsupported(f"TensorFlow {version}", f"it is older than {oldest[0]}.{oldest[1]}")


def unsupported(found: str, why: str) -> errors.UnsupportedVersionError:
    """The error that names the version found, the reason, and the versions that work."""
    message = (
        f"{found} cannot be used with kungfu_tf: {why}. Supported are {SUPPORTED}. Install one of "
        "these, or a kungfu_tf that supports it"
    )
    return errors.UnsupportedVersionError(errors.linked("unsupported-version", message))


def major_and_minor(version: str) -> tuple[int, int]:
    """(3, 16) of "3.16.0.dev2026102704"."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)
