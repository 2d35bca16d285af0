"""`pip install` as a user does it, under pip's build isolation, into an environment of its own.

All tests share the environment, and leave it as they found it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGED = ("kungfu_tf", "ops", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
sys.path.append(str(ROOT / "docker" / "wheels"))  # where symbols are read
TIMEOUT = 800.0  # seconds for one command, beside whatever else there is to do

PROGRAM = """
import kungfu_tf as kf, tensorflow as tf
total = kf.ops.all_reduce(tf.constant(1), name="ones")
print("sum", int(total), "by", kf.__file__)
"""


class Environment:
    """A virtual environment without packages, and with nothing of the tests' one."""

    def __init__(self, directory: Path, source: Path) -> None:
        venv.create(directory, with_pip=True)
        self.directory = directory
        self.source = source
        self.cache = directory / "cache"
        self.site_packages = next(directory.glob("lib/python3*/site-packages"))
        # The core is the same for every TensorFlow: its objects stay for the next installation.
        settings = directory / "setup.cfg"
        settings.write_text(f"[build_native]\ncore_build = {directory.parent / 'core'}\n")
        inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self.environ = {
            **inherited,
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "KUNGFU_CACHE_DIR": str(self.cache),
            "DIST_EXTRA_CONFIG": str(settings),
        }

    def show_tensorflow(self) -> None:
        """Lets it see the packages of the tests' environment."""
        (self.site_packages / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def hide_tensorflow(self) -> None:
        (self.site_packages / "tests.pth").unlink(missing_ok=True)

    def run(self, *command: str) -> str:
        """What a command prints; it must succeed."""
        result = subprocess.run(
            command,
            env=self.environ,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
        assert result.returncode == 0, result.stdout
        return result.stdout

    def install(self) -> set[str]:
        """Installs the package, without what it needs, and returns the libraries that it has."""
        self.run("pip", "install", "--no-deps", str(self.source))
        return self.libraries()

    def libraries(self) -> set[str]:
        lib = self.site_packages / "kungfu_tf" / "lib"
        return {path.name for path in lib.glob("*.so*")}

    def sums(self, np: int) -> str:
        """Runs an op in processes that start together, and returns what they print."""
        output = self.run("kungfu-run", "-np", str(np), "python", "-c", PROGRAM)
        installed = self.site_packages / "kungfu_tf" / "__init__.py"
        assert output.count(f"sum {np} by {installed}") == np, output
        return output

    def files(self) -> set[Path]:
        return {
            path
            for path in self.directory.rglob("*")
            if "__pycache__" not in path.parts or "kungfu_tf" in path.parts
        }


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout without what is built in it."""
    source = tmp_path_factory.mktemp("install") / "source"
    source.mkdir()
    for name in (*PACKAGED, "docker"):
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("lib", "__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    return source


@pytest.fixture(scope="session")
def environment(source: Path) -> Environment:
    return Environment(source.parent / "environment", source)


@pytest.fixture(scope="session")
def build_wheel(source: Path) -> Callable[..., Path]:
    """Makes the wheel of `make wheels`, with one op library only."""

    def build(machine: str, python: str) -> Path:
        """For a processor, and the TensorFlow of an interpreter."""
        output = source.parent / machine
        program = str(source / "docker" / "wheels" / "build.py")
        options = ["--machine", machine, "--python", python, "--output", str(output)]
        environ = {**os.environ, "PYTHONPATH": str(source)}
        command = [sys.executable, program, *options]
        subprocess.run(command, env=environ, check=True, timeout=TIMEOUT)
        (wheel,) = output.iterdir()
        return wheel

    return build


@pytest.fixture(scope="session")
def wheel(build_wheel: Callable[..., Path]) -> Path:
    """For the tests' TensorFlow."""
    return build_wheel(platform.machine(), sys.executable)
