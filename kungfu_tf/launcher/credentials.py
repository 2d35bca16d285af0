"""What the peers of a job prove to each other: its identity and its secret."""

import dataclasses
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping

from kungfu_tf import config
from kungfu_tf.launcher.counted import counted
from kungfu_tf.launcher.errors import LaunchError

SHORTEST, LONGEST = 16, 4096

_HOW_TO_MAKE_ONE = """\
several hosts need a secret that all of them know. Make one, copy it to every host, name it there:
  (umask 077; python3 -c 'import secrets; print(secrets.token_hex(32))' > ~/.kungfu-secret)
  export KUNGFU_SECRET_FILE=~/.kungfu-secret
or give -insecure where nobody else can reach the hosts' ports"""

HOW_TO_MAKE_A_TOKEN = """\
the config server needs a token that all who ask it know. Make one and name it, there and here:
  (umask 077; python3 -c 'import secrets; print(secrets.token_hex(32))' > ~/.kungfu-config-token)
  export KUNGFU_CONFIG_TOKEN_FILE=~/.kungfu-config-token"""


@dataclasses.dataclass(frozen=True)
class Credentials:
    """Never printed, never on a command line: it reaches the peers in their environment."""

    job_id: str
    secret: str = dataclasses.field(repr=False)
    warning: str | None = None


def one_host() -> Credentials:
    """Random: nobody outside needs to know."""
    return Credentials(secrets.token_hex(16), secrets.token_hex(32))


def several_hosts(
    environ: Mapping[str, str], description: str, *, insecure: bool = False
) -> Credentials:
    """What all runners of the job arrive at on their own: the given secret, an id made from it.

    Args:
        environ: Where the secret is, or the name of its file.
        description: Of the job, the same on all hosts.
        insecure: A secret need not be.

    Raises:
        LaunchError: no secret was given, or one that cannot be used.
    """
    secret, warning = _given(environ)
    if secret is None:
        if not insecure:
            raise LaunchError(_HOW_TO_MAKE_ONE)
        secret = "insecure"
        warning = "-insecure: whoever reaches a port of a peer can change the training"
    digest = hmac.new(secret.encode(), description.encode(), hashlib.sha256).hexdigest()
    return Credentials(digest[:32], secret, warning)


def config_token(environ: Mapping[str, str]) -> str | None:
    """What a config server is asked with, of KUNGFU_CONFIG_TOKEN or KUNGFU_CONFIG_TOKEN_FILE.

    Raises:
        LaunchError: It cannot be used, or the file is open to other users.
    """
    token, warning = _given(environ, config.CONFIG_TOKEN.name)
    if warning is not None:
        raise LaunchError(warning)
    return token


def check_files(environ: Mapping[str, str]) -> None:
    """Reads the files that the environment names, whether or not a job needs what they have.

    A pipe can be read once only, and is left to who needs what it has.

    Raises:
        LaunchError: One cannot be read, or not be used.
    """
    for name in ("KUNGFU_SECRET", config.CONFIG_TOKEN.name):
        if not environ.get(name) and not _is_pipe(environ.get(f"{name}_FILE", "")):
            _given(environ, name)


def secret(environ: Mapping[str, str]) -> str | None:
    """That of a job, where one is given.

    Raises:
        LaunchError: It cannot be used.
    """
    return _given(environ)[0]


def new_token(path: str) -> str:
    """A random one, which is also written to a file that only this user can read."""
    token = secrets.token_hex(16)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    return token


def _given(
    environ: Mapping[str, str], name: str = "KUNGFU_SECRET"
) -> tuple[str | None, str | None]:
    """The secret in the environment, and what is dubious about it.

    As peers read it that no launcher has started (ops/peer/peer.cc): KUNGFU_SECRET as it is, else
    the first line of KUNGFU_SECRET_FILE as it is.
    """
    secret = environ.get(name)
    if secret:
        return _checked(secret, name), None
    path = environ.get(f"{name}_FILE")
    if not path:
        return None, None
    secret, warning = _read(path, f"{name}_FILE")
    return _checked(secret, f"{name}_FILE '{path}': its first line"), warning


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _read(path: str, name: str) -> tuple[str, str | None]:
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.readline(LONGEST + 2).removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"{name}: cannot read '{path}': {error}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return text, f"{name} '{path}' is open to other users: chmod 600"
    return text, None


def _checked(secret: str, source: str) -> str:
    if not SHORTEST <= len(secret) <= LONGEST:
        many = "more characters" if len(secret) > LONGEST else counted(len(secret), "character")
        raise LaunchError(f"{source} has {many}, not {SHORTEST}-{LONGEST}")
    if not secret.isprintable():
        raise LaunchError(f"{source} has characters that cannot be printed")
    return secret
