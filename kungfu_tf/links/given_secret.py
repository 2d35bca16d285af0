"""A secret from the user: in a variable, or in a file that another variable names."""

import dataclasses
import os
import select
import stat
import time
from collections.abc import Mapping

from kungfu_tf import errors

SHORTEST, LONGEST = 16, 4096
DEADLINE = 10.0  # seconds within which a writer must open a pipe

_LONGEST_IN_BYTES = 4 * (LONGEST + 1)


@dataclasses.dataclass(frozen=True)
class Secret:
    """A secret, and a warning about it."""

    text: str = dataclasses.field(repr=False)
    doubt: str | None = None


def read(environ: Mapping[str, str], name: str, *, shortest: int = SHORTEST) -> Secret | None:
    """The variable, else the first line of the file, both unchanged.

    A peer that no launcher has started reads it in the same way (ops/peer/peer.cc).

    Args:
        environ: The environment.
        name: The variable; with _FILE behind it, the one that names the file.
        shortest: The least number of characters.

    Raises:
        InvalidArgumentError: If the file cannot be read, or the secret cannot be used.
    """
    if text := environ.get(name):
        return Secret(_checked(text, name, shortest))
    name = f"{name}_FILE"
    path = environ.get(name)
    if not path:
        return None
    try:
        line, mode = _first_line(path)
        text = line.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidArgumentError(f"{name}: cannot read '{path}': {error}") from None
    is_open = mode & (stat.S_IRWXG | stat.S_IRWXO)
    doubt = f"{name} '{path}' is open to other users: chmod 600" if is_open else None
    return Secret(_checked(text, f"{name} '{path}': its first line", shortest), doubt)


def _first_line(path: str) -> tuple[bytes, int]:
    """The first line of a file, and the file's mode. It waits for a pipe until the deadline."""
    deadline = time.monotonic() + DEADLINE
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with open(descriptor, "rb", buffering=0) as file:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        text = b""
        while b"\n" not in text and len(text) <= _LONGEST_IN_BYTES:
            if not poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
                message = f"no line was written to it within {DEADLINE:g} s"
                raise TimeoutError(errors.linked("secret-file", message))
            more = file.read(_LONGEST_IN_BYTES)
            if more == b"":
                break
            text += more or b""
        return text.partition(b"\n")[0], os.fstat(descriptor).st_mode


def _checked(text: str, source: str, shortest: int) -> str:
    if not shortest <= len(text) <= LONGEST:
        many = "more" if len(text) > LONGEST else len(text)
        raise errors.InvalidArgumentError(
            f"{source} has {many} characters, not {shortest}-{LONGEST}"
        )
    if not text.isprintable():
        raise errors.InvalidArgumentError(f"{source} has characters that cannot be printed")
    return text
