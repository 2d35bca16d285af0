"""Starts a process of ours that asks a store, which may be slow, as may be a name of its host.

It runs a module of kungfu_tf with a secret in its environment, and nothing that ties it to a job.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_SECRET = "KUNGFU_CONFIG_TOKEN"
_PASSED_ON = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # where OpenSSL looks for authorities
_ROOT = str(Path(__file__).resolve().parents[3])
# Ours is the last folder on the path, so that nothing there takes the place of the library's.
_START = """
import importlib, sys
sys.path.append(sys.argv.pop(1))
importlib.import_module(sys.argv.pop(1)).main(sys.argv[1:])
"""


def start(
    module: str, *arguments: str, secret: str, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Starts the function `main` of a module, with pipes for its input and its output.

    Args:
        module: The name of the module.
        arguments: The words that `main` gets.
        secret: The secret for the store.
        environ: The environment of this process.
    """
    passed_on = {name: environ[name] for name in _PASSED_ON if name in environ}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _START, _ROOT, module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**passed_on, _SECRET: secret},
        start_new_session=True,
    )


def secret() -> str:
    """The secret, in such a process."""
    return os.environ[_SECRET]
