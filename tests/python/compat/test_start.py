"""`kungfu-run -compat`: who gets what, and when. Something else plays TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

INSTALLED = {
    "tensorflow/__init__.py": "version = 2\nfrom tensorflow import compat, keras\n",
    "tensorflow/keras.py": "",
    "tensorflow/python.py": "",
    "tensorflow/compat/__init__.py": "from tensorflow.compat import v1",
    "tensorflow/compat/v1.py": """
from tensorflow import keras
version, off = 1, 0
def disable_v2_behavior():
    global off
    off += 1
""",
    "numpy.py": "",  # kungfu_tf wants one
    "library.py": "import tensorflow as tf; print('a library:', tf.version)",
}

PROGRAM = {
    "own/sitecustomize.py": "print('the own sitecustomize')",
    "package/__init__.py": "",
    "package/__main__.py": "import tensorflow as tf; print('a child:', tf.version)",
    "beside.py": "import tensorflow as tf; print('beside it:', tf.version)",
    "old.py": """
import subprocess, sys
assert "tensorflow" not in sys.modules

import tensorflow as tf, library, beside
print("the program:", tf.version, tf.off)
from tensorflow import version
import tensorflow.keras as keras, tensorflow.compat.v1 as v1
from tensorflow.python import __name__ as python
print("its parts:", version, keras.__name__, v1.version, python)
for gone in ("contrib", "examples.tutorials.mnist"):
    try:
        __import__("tensorflow." + gone)
    except ImportError as error:
        print(error)

import kungfu, kungfu._utils
print("kungfu:", kungfu.current_rank(), kungfu._utils.show_duration(90), flush=True)
subprocess.run([sys.executable, "-m", "package"], check=True)
""",
}

OUTPUT = """\
the own sitecustomize
a library: 2
beside it: 1
the program: 1 1
its parts: 1 tensorflow.keras 1 tensorflow.python
no module tensorflow.contrib: TensorFlow has none since 2.0
no module tensorflow.examples: TensorFlow has none since 2.0; \
kungfu.tensorflow.v1.helpers.mnist reads the files of MNIST
kungfu: 0 1m 30.00s
the own sitecustomize
a child: 1
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run(*command: object, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=240,
    )


LAUNCHES = """
from kungfu_tf import compat

compat.install("kungfu")
from kungfu.cmd import launch_multiprocess
from kungfu.python import current_cluster_size, current_rank

print(launch_multiprocess(lambda rank: (rank == current_rank(), current_cluster_size()), 2))
"""


LAUNCHES_TF1 = """
from kungfu_tf import compat

compat.install("kungfu")
compat.install("tf1")
import tensorflow as tf
from kungfu.cmd import launch_multiprocess


def sum_of_ranks(rank):
    from kungfu.tensorflow.ops import all_reduce

    total = all_reduce(tf.constant(rank))
    with tf.Session() as session:
        return int(session.run(total))


print(launch_multiprocess(sum_of_ranks, 2))
"""


def test_in_a_virtual_environment(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    write(next(tmp_path.glob("venv/lib/python3*/site-packages")), INSTALLED)
    write(tmp_path / "program", PROGRAM)
    path = f"{tmp_path}/program/own:{tmp_path}/program:{ROOT}"
    command = [tmp_path / "venv/bin/python", tmp_path / "program/old.py"]
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-compat", "kungfu,tf1"]
    job = run(*launcher, *command, PYTHONPATH=path)
    assert job.returncode == 0, job.stdout + job.stderr
    of_the_launcher, *lines = job.stdout.splitlines()
    assert of_the_launcher == "the own sitecustomize"
    assert lines == [f"[0] {line}" for line in OUTPUT.splitlines()]


def test_a_python_without_kungfu_tf_is_left_alone() -> None:
    start = str(ROOT / "kungfu_tf/compat/start")
    python = run(sys.executable, "-c", "print('ok')", PYTHONPATH=start, KUNGFU_COMPAT="kungfu,tf1")
    assert (python.returncode, python.stdout, python.stderr) == (0, "ok\n", "")


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("compat.install('tf2')", "ValueError: names 'tf2', and there are kungfu, tf1"),
        (
            "import sys; sys.path.insert(0, 'real'); import kungfu; compat.install('kungfu')",
            "the program has imported the real kungfu already, from",
        ),
        (
            "compat.install('kungfu'); compat.install('kungfu'); import kungfu; "
            "compat.install('kungfu'); import kungfu.torch",
            "kungfu_tf.compat has no kungfu.torch: it is for PyTorch, and kungfu_tf for TensorFlow",
        ),
    ],
)
def test_errors(program: str, says: str, tmp_path: Path) -> None:
    write(tmp_path, {"real/kungfu.py": ""})
    program = f"import os; os.chdir({str(tmp_path)!r}); from kungfu_tf import compat; {program}"
    ended = run(sys.executable, "-c", program, PYTHONPATH=str(ROOT))
    assert ended.returncode == 1
    assert says in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["-m", "kungfu.info"], "kungfu_tf "),
        (["-m", "kungfu.cmd", "-help"], "usage: kungfu-run"),
    ],
)
def test_modules_that_are_commands(command: list[str], says: str) -> None:
    path = f"{ROOT}/kungfu_tf/compat/start:{ROOT}"
    ended = run(sys.executable, *command, PYTHONPATH=path, KUNGFU_COMPAT="kungfu")
    assert ended.stdout.startswith(says), ended.stderr


def test_processes_that_a_program_launches_itself() -> None:
    ended = run(sys.executable, "-c", LAUNCHES, PYTHONPATH=str(ROOT))
    assert ended.stdout == "[(True, 2), (True, 2)]\n", ended.stderr


def test_a_program_of_tensorflow_1_may_start_processes_itself() -> None:
    ended = run(sys.executable, "-c", LAUNCHES_TF1, PYTHONPATH=str(ROOT))
    assert ended.stdout == "[1, 1]\n", ended.stderr
