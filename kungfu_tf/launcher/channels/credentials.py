"""How a job gets its identity and its secret."""

import hashlib
import hmac
import os
import secrets

from kungfu_tf import errors
from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.links.credentials import Credentials
from kungfu_tf.links.given_secret import Secret

_HOW_TO_MAKE_ONE = """\
several hosts need a secret that all of them know. Make one, copy it to every host, name it there:
  (umask 077; python3 -c 'import secrets; print(secrets.token_hex(32))' > ~/.kungfu-secret)
  export KUNGFU_SECRET_FILE=~/.kungfu-secret
or give -insecure where nobody else can reach the hosts' ports"""

_INSECURE = Secret(
    "insecure", "-insecure: any process that reaches a port of a peer can change the training"
)


def one_host() -> Credentials:
    """Random credentials for a job on one host."""
    return Credentials(secrets.token_hex(16), secrets.token_hex(32))


def several_hosts(given: Secret | None, description: str, *, insecure: bool = False) -> Credentials:
    """The credentials that each runner derives by itself: the given secret, and an id from it.

    Args:
        given: The user's secret.
        description: The description of the job, the same on all hosts.
        insecure: Whether the job may do without a secret.

    Raises:
        LaunchError: If there is no secret, and one is needed.
    """
    if given is None and not insecure:
        raise LaunchError(errors.linked("secret-needed", _HOW_TO_MAKE_ONE))
    secret = given or _INSECURE
    digest = hmac.new(secret.text.encode(), description.encode(), hashlib.sha256).hexdigest()
    return Credentials(digest[:32], secret.text, secret.doubt, insecure=given is None)


def new_token(path: str) -> str:
    """A random token, which is also written to a file that only this user can read."""
    token = secrets.token_hex(16)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    return token
