"""Virtual environments: one for each Python and TensorFlow, for all versions of Keras.

Each version of Keras 3, and the old NumPy, is in a folder of its own, in which the interpreter
looks before it looks in the environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from rows import LEGACY, MAIN_PYTHON, NEWEST_TENSORFLOW, NIGHTLY, OWN_KERAS_2, Row

ROOT = Path(__file__).resolve().parents[2]
VENVS = ROOT / ".venv"
INSTALL_TIMEOUT = 1800.0  # seconds: TensorFlow is a download of 250 MB
EVERYWHERE = ("cloudpickle", "dm-tree", "packaging", "prometheus-client", "setuptools<81")


class Unavailable(Exception):
    """A row cannot be run on this machine; the message says why."""


def prepare(row: Row) -> tuple[Path, dict[str, str]]:
    """Installs what `row` needs, unless it is there.

    Returns:
        The interpreter, and environment variables to run it with.

    Raises:
        Unavailable: If no interpreter of that version is on the PATH.
    """
    python = _interpreter(row)
    path = [str(ROOT)]
    variables = {
        "KUNGFU_CACHE_DIR": str(ROOT / "build" / "versions"),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_ENABLE_ONEDNN_OPTS": "0",  # its sums depend on the processor
    }
    if row.keras == LEGACY:
        if row.tensorflow != OWN_KERAS_2:
            variables["TF_USE_LEGACY_KERAS"] = "1"
    elif row.keras == NIGHTLY:
        path.insert(0, str(_folder(python, "keras", NIGHTLY, "--pre", "keras-nightly")))
    else:
        path.insert(0, str(_folder(python, "keras", row.keras, f"keras=={row.keras}")))
    if row.numpy:
        name = f"numpy-python-{row.python}"
        path.insert(0, str(_folder(python, name, row.numpy, f"numpy=={row.numpy}")))
    return python, {**variables, "PYTHONPATH": os.pathsep.join(path)}


def _interpreter(row: Row) -> Path:
    """The interpreter of the environment for the row's Python and TensorFlow."""
    name = f"tf-{row.tensorflow}-python-{row.python}"
    known = {NEWEST_TENSORFLOW: "tf-2.21", OWN_KERAS_2: "tf-2.15"}.get(row.tensorflow)
    ready = VENVS / (known or "") / ".ready"
    if known and ready.exists() and row.python == MAIN_PYTHON:
        return VENVS / known / "bin" / "python"
    environment = VENVS / "versions" / name
    python = environment / "bin" / "python"
    if (environment / ".ready").exists():
        return python
    base = shutil.which(f"python{row.python}")
    if base is None or not _works(base):
        raise Unavailable(f"no python{row.python} is on the PATH")
    _run(base, "-m", "venv", "--clear", environment)
    _run(python, "-m", "pip", "install", *_requirements(row))
    if row.tensorflow not in (
        NIGHTLY,
        OWN_KERAS_2,
    ):
        # It depends on another build of TensorFlow.
        _run(python, "-m", "pip", "install", "--no-deps", f"tf_keras=={_minor(row.tensorflow)}.*")
    (environment / ".ready").touch()
    return python


def _requirements(row: Row) -> list[str]:
    """The packages of the environment, for pip."""
    if row.tensorflow == NIGHTLY:
        return ["--pre", "tf-nightly-cpu", *EVERYWHERE]
    return [f"tensorflow-cpu=={row.tensorflow}", *EVERYWHERE]


def _folder(python: Path, name: str, version: str, *package: str) -> Path:
    """The folder of one version of a package, without its dependencies."""
    folder = VENVS / name / version
    if not folder.is_dir():
        _run(python, "-m", "pip", "install", "--no-deps", "--target", folder, *package)
    return folder


def _works(python: str) -> bool:
    """Whether it starts: it may be the shim of a version that is not installed."""
    return subprocess.run([python, "-c", ""], capture_output=True, timeout=60).returncode == 0


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _run(*command: str | Path) -> None:
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environ["PIP_DISABLE_PIP_VERSION_CHECK"] = environ["PIP_QUIET"] = "1"
    subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT, env=environ)
