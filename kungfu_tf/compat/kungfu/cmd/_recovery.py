"""Programs that continue after a failure as KungFu's do: by their arguments.

When kungfu-run -auto-recover has started all peers anew, the number after --n-epochs or
--num-epochs is smaller by the epochs that all had ended, and --restart 1 is behind the others.
"""

from __future__ import annotations

import os

from kungfu_tf import config, peer

_EPOCHS = ("--n-epochs", "--num-epochs")


def continue_arguments(arguments: list[str]) -> None:
    """Changes the arguments of a program that was started anew after a failure."""
    if not config.RESTARTS.get() or config.RELOADS.get():
        return
    ended = -peer.all_reduce_int_max(-config.EPOCHS.get())
    for index, argument in enumerate(arguments[:-1]):
        if argument in _EPOCHS and arguments[index + 1].isdigit():
            arguments[index + 1] = str(int(arguments[index + 1]) - ended)
    arguments += ["--restart", "1"]


def count_epoch() -> None:
    """Tells the launcher how many epochs this peer has ended."""
    global _ended
    _ended += 1
    if peer.launched():
        path = config.run_directory() / f"{config.EPOCHS_FILE}{os.getpid()}"
        new = path.with_name(f"new-{path.name}")
        new.write_text(str(_ended))
        new.replace(path)


_ended = 0
