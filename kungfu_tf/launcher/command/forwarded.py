"""The variables that a command on other hosts gets from here.

They travel through its standard input, so that they do not show in the list of processes.
"""

import secrets
from collections.abc import Iterable, Mapping

from kungfu_tf import config, errors
from kungfu_tf.launcher.options import given_secrets
from kungfu_tf.launcher.options.command_line import Options
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.native import environment

# The first commands of a shell, which read the result of `lines`.
READ = 'while IFS= read -r line && [ -n "$line" ]; do export "$line"; done && '

_OF_SECRETS = ("KUNGFU_SECRET", config.CONFIG_TOKEN.name)


def lines(variables: Mapping[str, str]) -> bytes:
    """The variables as lines for a shell. Raises LaunchError if a value has several lines."""
    for name, value in variables.items():
        if "\n" in value:
            raise LaunchError(f"{name} has several lines, and cannot be handed to other hosts")
    return "".join(f"{name}={value}\n" for name, value in variables.items()).encode() + b"\n"


def named(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that -x names. Raises LaunchError if there is no such variable."""
    missing = [name for name in names if name not in environ]
    if missing:
        raise LaunchError(f"-x: the variable {missing[0]} is not set here")
    return {name: environ[name] for name in names}


def of_runner(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for kungfu-run on another host: those of -x, ours that are set, and secrets.

    It makes a secret for the hosts if there is none.

    Raises:
        LaunchError: If a secret cannot be used, a variable is not set, or the core is missing.
    """
    given = given_secrets.read(environ, options.config_server)
    ours = {name for name in environ if name.startswith("KUNGFU_")} - _kept_here()
    result = named([*options.forwarded, *sorted(ours)], environ)
    result["KUNGFU_SECRET"] = given.secret.text if given.secret else secrets.token_hex(32)
    token = given_secrets.usable(given.config_token) if options.config_server else None
    if token is not None:
        result[config.CONFIG_TOKEN.name] = token
    return result


def _kept_here() -> set[str]:
    """Our variables that are internal or secret, which are not forwarded as they are."""
    try:
        internal = {setting.name for setting in environment.settings() if setting.internal}
    except errors.LibraryError as error:
        raise LaunchError(str(error)) from error
    return internal | {name + end for name in _OF_SECRETS for end in ("", "_FILE")}
