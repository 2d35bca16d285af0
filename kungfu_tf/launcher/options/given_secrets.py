"""The secrets that the user gives to a command.

A command reads them only once, at its start: a pipe cannot be read twice.
"""

import dataclasses
from collections.abc import Mapping

from kungfu_tf import config, errors
from kungfu_tf.launcher.options import store_url
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.links import given_secret
from kungfu_tf.links.given_secret import Secret

_HOW_TO_MAKE_A_TOKEN = """\
the config server needs a token that all its clients know. Make one and name it, there and here:
  (umask 077; python3 -c 'import secrets; print(secrets.token_hex(32))' > ~/.kungfu-config-token)
  export KUNGFU_CONFIG_TOKEN_FILE=~/.kungfu-config-token"""


@dataclasses.dataclass(frozen=True)
class Given:
    """The secrets of a job; None for one that was not given."""

    secret: Secret | None
    config_token: Secret | None


def read(environ: Mapping[str, str], config_server: str | None = None) -> Given:
    """All secrets that a job may need, whether or not this one does.

    Args:
        environ: The environment.
        config_server: The URL of -config-server, if there is one.

    Raises:
        LaunchError: If a file cannot be read, or a secret cannot be used.
    """
    return Given(secret(environ), config_token(environ, config_server))


def secret(environ: Mapping[str, str]) -> Secret | None:
    """The secret that the peers of a job prove to each other. Raises as `read`."""
    return _read(environ, "KUNGFU_SECRET")


def config_token(environ: Mapping[str, str], config_server: str | None = None) -> Secret | None:
    """The token for a config server, or the password of a user of etcd. Raises as `read`."""
    if config_server is not None and store_url.is_etcd(config_server):
        return _read(environ, config.CONFIG_TOKEN.name, shortest=1)
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


def of_store(url: str, token: Secret | None) -> str:
    """What the store of a cluster document wants: a token, or the password of etcd's user.

    Args:
        url: The URL of -config-server.
        token: What the user has given.

    Raises:
        LaunchError: If it is missing, or its file is open to other users.
    """
    if not store_url.is_etcd(url):
        return needed(token)
    user = store_url.parse_etcd(url).user
    if user is None:
        return ""
    password = usable(token)
    if password is None:
        raise LaunchError(
            f"-config-server: the password of etcd's user '{user}' is missing: put it into a file,"
            " and name the file in KUNGFU_CONFIG_TOKEN_FILE"
        )
    return password


def _read(
    environ: Mapping[str, str], name: str, *, shortest: int = given_secret.SHORTEST
) -> Secret | None:
    try:
        return given_secret.read(environ, name, shortest=shortest)
    except errors.InvalidArgumentError as error:
        raise LaunchError(str(error)) from None
