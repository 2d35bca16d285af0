"""Saves a model again and again in processes that die: each at a later access to a file.

saves_and_dies.py FOLDER [calls]. With `calls` each dies at a later call of the kernel that changes
a file, where strace kills it.

After each death it looks at what can be loaded. The weights of save n are all n.
"""

from __future__ import annotations

import inspect
import itertools
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from kungfu_tf.data.dealt import Dealt
from kungfu_tf.data.position import Position
from kungfu_tf.keras import patches
from kungfu_tf.keras.elastic.backup import Backup
from kungfu_tf.keras.fit.elastic_run import ElasticRun
from kungfu_tf.upstream import generations

ACCESSES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "os.listdir")

# strace counts each by itself. The process is killed before the kernel does it.
CALLS = (
    "write",
    "pwrite64",
    "fsync",
    "ftruncate",
    "mkdir",
    "rename",
    "unlink",
    "unlinkat",
    "rmdir",
)

keras = tf.keras
FOLDER = Path(sys.argv[1])
model = keras.Sequential([keras.Input([100]), keras.layers.Dense(100)])
model.compile("sgd", "mse")


def fill(value: int) -> None:
    for variable in model.weights:
        variable.assign(np.full(variable.shape, value))


def value_of_model() -> int:
    values = {float(value) for weights in model.get_weights() for value in weights.flat}
    assert len(values) == 1, f"of several saves: {values}"
    return int(values.pop())


def dies_at_access(number: int) -> Callable[[], None]:
    """Kills this process before it accesses files of the folder for the n-th time."""

    def arm() -> None:
        left = [number]

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            if event in ACCESSES and str(FOLDER) in str(arguments):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)

    return arm


def dies_at_size(size: int) -> Callable[[], None]:
    """Kills this process where a file becomes larger, in bytes."""

    def arm() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return arm


def finds_no_room(size: int) -> Callable[[], None]:
    """Makes writing fail where a file becomes larger, as on a full disk."""

    def arm() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return arm


def ends(arm: Callable[[], None], work: Callable[[], None]) -> int:
    """How a process ends that does the work."""
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # HDF5 tells of each byte that it cannot write
        arm()
        try:
            work()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def deaths_at_sizes(work: Callable[[], None], check: Callable[[], None]) -> int:
    """Dies while files become larger. Returns the number of deaths."""
    arms = [arm(size) for arm in (dies_at_size, finds_no_room) for size in (1, 1000, 20_000)]
    for arm in arms:
        assert ends(arm, work), "it outlived what should kill it"
        check()
    return len(arms)


def deaths_at_accesses(work: Callable[[], None], check: Callable[[], None]) -> int:
    """Dies at each access in turn. Returns the number of deaths."""
    for number in itertools.count(1):
        if not ends(dies_at_access(number), work):
            break
        check()
    return number - 1


def deaths_at_calls(work: Callable[[], None], check: Callable[[], None]) -> int:
    """Dies at each call that changes a file, in turn. Returns the number of deaths."""
    deaths = 0
    for call in CALLS:
        for number in itertools.count(1):
            if not ends_at_call(call, number, work):
                break
            check()
            deaths += 1
    return deaths


def ends_at_call(call: str, number: int, work: Callable[[], None]) -> int:
    """How a process ends that does the work, and dies before it makes a call for the n-th time."""
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.kill(os.getpid(), signal.SIGSTOP)
        work()
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    what = ("-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")
    strace = subprocess.Popen(["strace", "-qq", "-o", os.devnull, "-p", str(child), *what])
    while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text():
        assert strace.poll() is None, "strace must be allowed to trace other processes"
        time.sleep(0.001)
    os.kill(child, signal.SIGCONT)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    strace.wait()
    return code


def deaths(work: Callable[[], None], check: Callable[[], None]) -> str:
    if sys.argv[2:] == ["calls"]:
        return str(deaths_at_calls(work, check))
    return f"{deaths_at_sizes(work, check)} {deaths_at_accesses(work, check)}"


def saves(name: str, save: Callable[[str], None], load: Callable[[str], Any]) -> None:
    path = str(FOLDER / name)
    last = [1]

    def next_one() -> None:
        fill(last[0] + 1)
        save(path)

    def check() -> None:
        load(path)
        assert value_of_model() in (last[0], last[0] + 1)
        last[0] = value_of_model()

    fill(1)
    save(path)
    print(name, deaths(next_one, check))


def load_model(path: str) -> None:
    model.set_weights(keras.models.load_model(path).get_weights())


def backups(**options: Any) -> None:
    folder = FOLDER / "backup"
    last = [1]

    def callback() -> Any:
        made = keras.callbacks.BackupAndRestore(folder, **options)
        made.set_model(model)
        return made

    def make(number: int) -> None:
        fill(number)
        callback().on_epoch_end(number - 1)

    def next_one() -> None:
        make(last[0] + 1)

    def check() -> None:
        callback().on_train_begin()
        assert value_of_model() == model._initial_epoch, "weights of another epoch"
        assert value_of_model() in (last[0], last[0] + 1)
        last[0] = value_of_model()

    def check_removed() -> None:
        model._initial_epoch = 0
        fill(0)
        callback().on_train_begin()
        assert value_of_model() == model._initial_epoch
        if not folder.exists():
            make(1)

    make(1)
    print("backup", deaths(next_one, check))
    print("removed", deaths_at_accesses(lambda: callback().on_train_end(), check_removed))


def elastic_backups() -> None:
    """The weights of a backup and its place in the data belong together."""
    position = Position()
    position.of_length(1000)
    run = ElasticRun(Dealt(position, batch_size=1))
    callback = keras.callbacks.BackupAndRestore(FOLDER / "elastic")
    callback.set_model(model)
    backup = Backup(callback, model, run)
    last = [1]

    def make(number: int) -> None:
        fill(number)
        model.optimizer.iterations.assign(number)
        run.position.sample = number
        backup.begin_noting()
        callback._save_model()

    def check() -> None:
        run.position.sample = 0
        backup.restore()
        assert value_of_model() == run.position.sample
        assert value_of_model() in (last[0], last[0] + 1)
        last[0] = value_of_model()

    make(1)
    backup.end_noting()
    print("elastic", deaths(lambda: make(last[0] + 1), check))


if __name__ == "__main__":
    patches.install()
    saves("model.keras", model.save, load_model)
    saves("model.weights.h5", model.save_weights, model.load_weights)
    if generations.packages()[0].generation == 3:
        backups()
        if "double_checkpoint" in inspect.signature(keras.callbacks.BackupAndRestore).parameters:
            backups(double_checkpoint=True)  # later ones have it
        elastic_backups()
