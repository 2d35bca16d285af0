"""The secret of a job that another launcher has started: given, or from a file of the user's."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from kungfu_tf import errors
from kungfu_tf.environments.placement import Placement
from kungfu_tf.links import given_secret

_DEADLINE = 5.0  # seconds in which another process must have written the file
_GIVEN = ("KUNGFU_SECRET", "KUNGFU_SECRET_FILE")
_FILE = "~/.kungfu/secret"
_HOW_TO_GIVE_ONE = (
    "set KUNGFU_SECRET, or KUNGFU_SECRET_FILE to a file with the secret, the same for all processes"
)


def of(place: Placement, environ: Mapping[str, str]) -> str:
    """The secret that all processes of the job have.

    It is KUNGFU_SECRET, or in KUNGFU_SECRET_FILE. Else it follows from the job and
    `~/.kungfu/secret`, which the first job writes.

    Raises:
        FailedPreconditionError: If there is none.
        InvalidArgumentError: If a given one cannot be used.
        PermissionDeniedError: If other users may read the file.
    """
    given = given_secret.read(environ, "KUNGFU_SECRET")
    if given is not None:
        if given.doubt is not None:
            raise errors.PermissionDeniedError(given.doubt)
        return given.text
    if source(place, environ) is None:
        message = f"{place.told(environ)}: the processes need a secret: {_HOW_TO_GIVE_ONE}"
        raise errors.FailedPreconditionError(errors.linked("environment-secret", message))
    try:
        text = _of_user(Path(_FILE).expanduser())
    except (OSError, RuntimeError) as error:  # a user has no home
        message = f"there is no secret for this job: {error}: {_HOW_TO_GIVE_ONE}"
        raise errors.FailedPreconditionError(errors.linked("environment-secret", message)) from None
    return hmac.new(text.encode(), place.job_id.encode(), hashlib.sha256).hexdigest()


def source(place: Placement, environ: Mapping[str, str]) -> str | None:
    """Where `of` finds the secret; None if it finds none."""
    given = next((name for name in _GIVEN if environ.get(name)), None)
    has_common_home = place.shares_home or place.is_on_one_host
    return given or (_FILE if has_common_home else None)


def _of_user(path: Path) -> str:
    """The content of the file, which is written first if it is not there."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with open(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    deadline = time.monotonic() + _DEADLINE
    while not (text := path.read_text()).endswith("\n"):  # another process is about to write it
        if time.monotonic() > deadline:
            raise OSError(f"{path} has no line: remove it")
        time.sleep(0.05)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise errors.PermissionDeniedError(f"{path} is open to other users: chmod 600 {path}")
    return text.strip()
