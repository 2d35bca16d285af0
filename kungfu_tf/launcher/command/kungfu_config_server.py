"""`kungfu-config-server`: a config server as a process of its own."""

import os
import selectors
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kungfu_tf._version import __version__
from kungfu_tf.launcher.channels import event_turn
from kungfu_tf.launcher.channels.json_http import Request
from kungfu_tf.launcher.document import cluster_document, config_server
from kungfu_tf.launcher.document.config_server import ConfigServer
from kungfu_tf.launcher.document.file_store import FileStore
from kungfu_tf.launcher.document.memory_store import MemoryStore
from kungfu_tf.launcher.document.store import Problem
from kungfu_tf.launcher.options import given_secrets
from kungfu_tf.launcher.options.launch_error import LaunchError

DEFAULT_PORT = 9100

_TICK = 0.5
_ROUTES = (config_server.__doc__ or "").partition("\n")[2]
_USAGE = "usage: kungfu-config-server [-host IP] [-port PORT] [-file FILE] [-init FILE]"
_HELP = f"""\
{_USAGE}

Keeps the cluster document of a job that changes its size: kungfu-run -w -config-server URL.

  -host IP     where it listens (default 127.0.0.1)
  -port PORT   (default {DEFAULT_PORT}; 0: any that is free)
  -file FILE   keeps the document there, so that it survives the server
  -init FILE   the document to begin with, where there is none

Environment: KUNGFU_CONFIG_TOKEN, or KUNGFU_CONFIG_TOKEN_FILE names a file whose first line it is;
each request must bring it: Authorization: Bearer TOKEN.

{_ROUTES}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Runs until it is told to end."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if any(word.lstrip("-") in ("h", "help") for word in words):
        print(_HELP, end="")
        return 0
    if any(word.lstrip("-") in ("V", "version") for word in words):
        print(f"kungfu-config-server {__version__}")
        return 0
    try:
        return _serve(_options(words), os.environ)
    except LaunchError as error:
        print(f"kungfu-config-server: {error}", file=sys.stderr)
        return error.exit_code


def _options(words: list[str]) -> dict[str, str]:
    options = {"host": "127.0.0.1", "port": str(DEFAULT_PORT), "file": "", "init": ""}
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in options:
            raise LaunchError(f"there is no '{word}'\n{_USAGE}")
        if not equals and not words:
            raise LaunchError(f"-{name} needs a value\n{_USAGE}")
        options[name] = value if equals else words.pop(0)
    if not options["port"].isdecimal() or int(options["port"]) > 65535:
        raise LaunchError(f"-port: '{options['port']}' is not a port")
    return options


def _serve(options: Mapping[str, str], environ: Mapping[str, str]) -> int:
    token = given_secrets.needed(given_secrets.config_token(environ))
    kept = _open_store(options["file"], options["init"])
    listener = config_server.listen(options["host"], int(options["port"]))
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: stopped.append(128 + number))
    with selectors.DefaultSelector() as selector:
        server = ConfigServer(kept, listener, token, selector, lambda: stopped.append(0))
        host, port = listener.getsockname()[:2]
        print(f"kungfu-config-server: http://{host}:{port}", flush=True)
        while not stopped:
            event_turn.take(selector, selector.select(_TICK))
            server.advance()
        server.close()
    return stopped[0]


def _open_store(file: str, init: str) -> MemoryStore:
    if file and not os.access(folder := Path(file).absolute().parent, os.W_OK | os.X_OK):
        raise LaunchError(f"-file: '{file}' cannot be kept: nothing can be written to '{folder}'")
    try:
        kept = FileStore(Path(file)) if file else MemoryStore()
    except Problem as problem:
        raise LaunchError(f"-file: '{file}' {problem}") from None
    if init and kept.document is None:
        try:
            kept.reset(cluster_document.parse(Request("", "", {}, Path(init).read_bytes()).json()))
        except (OSError, ValueError, Problem) as error:
            raise LaunchError(f"-init: '{init}': {error}") from None
    return kept


if __name__ == "__main__":
    sys.exit(main())
