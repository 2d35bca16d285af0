"""The program that each peer of a job runs: the cases that pytest asks for, in its order."""

from __future__ import annotations

import faulthandler
import importlib.util
import os
import socket
import sys
import traceback
import warnings
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.channel import Channel, Closed

IDLE_TIMEOUT = 600.0


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def run_case(module: ModuleType, function: str, arguments: dict[str, object]) -> str | None:
    """None if the case passed, else its traceback."""
    try:
        getattr(module, function)(**arguments)
    except BaseException:
        return traceback.format_exc()
    return None


def main() -> None:
    path, hub = sys.argv[1:]
    warnings.filterwarnings("error", module=r"kungfu_tf")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(IDLE_TIMEOUT)
    connection.connect(hub)
    channel = Channel(connection)

    module = load(Path(path))
    # Only now: a module may set what TensorFlow reads when it is imported.
    import kungfu_tf as kf

    channel.send({"rank": kf.rank(), "pid": os.getpid()}, IDLE_TIMEOUT)
    try:
        while True:
            request = channel.receive(IDLE_TIMEOUT)
            # A little before pytest gives up, so that its report shows where this peer stands.
            faulthandler.dump_traceback_later(max(1.0, request["timeout"] - 5.0))
            failure = run_case(module, request["function"], request["arguments"])
            faulthandler.cancel_dump_traceback_later()
            channel.send({"failure": failure}, IDLE_TIMEOUT)
    except Closed:
        channel.close()


if __name__ == "__main__":
    main()
