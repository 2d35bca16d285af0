"""The secrets from the user: each is in a variable, or in a file that another variable names.

A command reads them only once, at its start: a pipe cannot be read twice.
"""

import dataclasses
import os
import select
import stat
import time
from collections.abc import Mapping

from kungfu_tf import config, errors
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.options.plural import plural

SHORTEST, LONGEST = 16, 4096
DEADLINE = 10.0  # seconds within which a writer must open a pipe

_LONGEST_IN_BYTES = 4 * (LONGEST + 1)

_HOW_TO_MAKE_A_TOKEN = """\
the config server needs a token that all its clients know. Make one and name it, there and here:
  (umask 077; python3 -c 'import secrets; print(secrets.token_hex(32))' > ~/.kungfu-config-token)
  export KUNGFU_CONFIG_TOKEN_FILE=~/.kungfu-config-token"""


@dataclasses.dataclass(frozen=True)
class Secret:
    """A secret, and a warning about it."""

    text: str = dataclasses.field(repr=False)
    doubt: str | None = None


@dataclasses.dataclass(frozen=True)
class Given:
    """The secrets of a job; None for one that was not given."""

    secret: Secret | None
    config_token: Secret | None


def read(environ: Mapping[str, str]) -> Given:
    """All secrets that a job may need, whether or not this one does.

    Raises:
        LaunchError: If a file cannot be read, or a secret cannot be used.
    """
    return Given(secret(environ), config_token(environ))


def secret(environ: Mapping[str, str]) -> Secret | None:
    """The secret that the peers of a job prove to each other. Raises as `read`."""
    return _read(environ, "KUNGFU_SECRET")


def config_token(environ: Mapping[str, str]) -> Secret | None:
    """The token for requests to a config server. Raises as `read`."""
    return _read(environ, config.CONFIG_TOKEN.name)


def usable(token: Secret | None) -> str | None:
    """The token, if there is one.

    Raises:
        LaunchError: If its file is open to other users.
    """
    if token is not None and token.doubt is not None:
        raise LaunchError(token.doubt)
    return None if token is None else token.text


def needed(token: Secret | None) -> str:
    """The token, as from `usable`. If there is none, the LaunchError says how to make one."""
    text = usable(token)
    if text is None:
        raise LaunchError(_HOW_TO_MAKE_A_TOKEN)
    return text


def _read(environ: Mapping[str, str], name: str) -> Secret | None:
    """The variable, else the first line of the file, both unchanged.

    A peer that no launcher has started reads it in the same way (ops/peer/peer.cc).
    """
    if text := environ.get(name):
        return Secret(_checked(text, name))
    name = f"{name}_FILE"
    path = environ.get(name)
    if not path:
        return None
    try:
        line, mode = _first_line(path)
        text = line.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"{name}: cannot read '{path}': {error}") from None
    is_open = mode & (stat.S_IRWXG | stat.S_IRWXO)
    doubt = f"{name} '{path}' is open to other users: chmod 600" if is_open else None
    return Secret(_checked(text, f"{name} '{path}': its first line"), doubt)


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


def _checked(text: str, source: str) -> str:
    if not SHORTEST <= len(text) <= LONGEST:
        many = "more characters" if len(text) > LONGEST else plural(len(text), "character")
        raise LaunchError(f"{source} has {many}, not {SHORTEST}-{LONGEST}")
    if not text.isprintable():
        raise LaunchError(f"{source} has characters that cannot be printed")
    return text
