"""The program that each peer of a job runs: the cases that pytest asks for, in its order."""

from __future__ import annotations

import faulthandler
import gc
import importlib.util
import os
import socket
import sys
import traceback
import warnings
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import Skip
from harness.channel import Channel, Closed

SHARED = Path(__file__).parents[1] / "shared"
IDLE_TIMEOUT = 600.0


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def forget() -> None:
    """Brings Keras back to what it was before any module, and forgets what those share, too."""
    for name, module in list(sys.modules.items()):
        path = Path(getattr(module, "__file__", None) or "")
        if path.parent == SHARED or path.name.startswith("cases_"):
            del sys.modules[name]
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        tf.keras.backend.clear_session()
        tf.keras.backend.set_floatx("float32")
    gc.collect()


class Modules:
    """The module whose cases are run, one at a time."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._module: ModuleType | None = None

    def at(self, path: Path) -> ModuleType:
        if self._module is None or path != self._path:
            if self._module is not None:
                forget()
            self._path, self._module = path, load(path)
        return self._module


def run_case(
    modules: Modules, path: str, function: str, arguments: dict[str, object]
) -> dict[str, str]:
    """Nothing if the case passed, else its traceback or why it is skipped."""
    try:
        getattr(modules.at(Path(path)), function)(**arguments)
    except Skip as skip:
        return {"skipped": str(skip)}
    except BaseException:
        return {"failure": traceback.format_exc()}
    return {}


def main() -> None:
    [hub] = sys.argv[1:]
    warnings.filterwarnings("error", module=r"kungfu_tf")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(IDLE_TIMEOUT)
    connection.connect(hub)
    channel = Channel(connection)

    import kungfu_tf as kf

    modules = Modules()
    channel.send({"rank": kf.rank(), "pid": os.getpid()}, IDLE_TIMEOUT)
    try:
        while True:
            request = channel.receive(IDLE_TIMEOUT)
            timeout = request.pop("timeout")
            # A little before pytest gives up, so that its report shows where this peer stands.
            faulthandler.dump_traceback_later(max(1.0, timeout - 5.0))
            reply = run_case(modules, **request)
            faulthandler.cancel_dump_traceback_later()
            channel.send(reply, IDLE_TIMEOUT)
    except Closed:
        channel.close()


if __name__ == "__main__":
    main()
