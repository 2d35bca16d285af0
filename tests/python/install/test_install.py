"""`pip install` as a user does it, under pip's build isolation, into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGED = ("kungfu_tf", "ops", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")

# The core is compiled, twice, on machines that may have other things to do.
pytestmark = pytest.mark.timeout(900)

PROGRAM = """
import kungfu_tf as kf, tensorflow as tf
total = kf.ops.all_reduce(tf.constant(1), name="ones")
print("sum", int(total), "by", kf.__file__)
"""


class Environment:
    """A virtual environment without packages, and with nothing of the tests' one."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory, with_pip=True)
        self.directory = directory
        self.site_packages = next(directory.glob("lib/python3*/site-packages"))
        inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self.environ = {
            **inherited,
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "KUNGFU_CACHE_DIR": str(directory / "cache"),
        }

    def show_tensorflow(self) -> None:
        """Lets it see the packages of the tests' environment."""
        (self.site_packages / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def run(self, *command: str) -> str:
        """What a command prints; it must succeed."""
        result = subprocess.run(
            command,
            env=self.environ,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert result.returncode == 0, result.stdout
        return result.stdout

    def files(self) -> set[Path]:
        return {
            path
            for path in self.directory.rglob("*")
            if "__pycache__" not in path.parts or "kungfu_tf" in path.parts
        }

    def libraries(self) -> set[str]:
        lib = self.site_packages / "kungfu_tf" / "lib"
        return {path.name for path in lib.glob("*.so*")}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The checkout without what is built in it."""
    for name in PACKAGED:
        original, copy = ROOT / name, tmp_path / "source" / name
        if original.is_dir():
            shutil.copytree(original, copy, ignore=shutil.ignore_patterns("lib", "__pycache__"))
        else:
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(original, copy)
    return tmp_path / "source"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


def four_sums(environment: Environment) -> str:
    """Runs an op in four processes that start together, and returns what they print."""
    output = environment.run("kungfu-run", "-np", "4", "python", "-c", PROGRAM)
    installed = environment.site_packages / "kungfu_tf" / "__init__.py"
    assert output.count(f"sum 4 by {installed}") == 4, output
    return output


def test_brings_the_op_library_of_the_tensorflow_that_is_there(
    source: Path, environment: Environment
) -> None:
    environment.show_tensorflow()
    before = environment.files()
    environment.run("pip", "install", "--no-deps", str(source))
    version = environment.run("python", "-c", "import tensorflow as tf; print(tf.__version__)")
    minor = ".".join(version.split()[-1].split(".")[:2])
    assert environment.libraries() == {"libkungfu.so.1", f"libkungfu_ops-{minor}.so"}

    output = four_sums(environment)
    assert "compiling the ops" not in output
    assert not (environment.directory / "cache").exists()

    environment.run("pip", "uninstall", "--yes", "kungfu_tf")
    assert environment.files() == before


def test_without_tensorflow_the_first_use_compiles_once(
    source: Path, environment: Environment
) -> None:
    environment.run("pip", "install", "--no-deps", str(source))
    assert environment.libraries() == {"libkungfu.so.1"}
    assert environment.run("kungfu-run", "-np", "1", "echo", "it runs").endswith("it runs\n")

    environment.show_tensorflow()
    assert four_sums(environment).count("compiling the ops") == 1
    assert "compiling the ops" not in four_sums(environment)
    assert len(list((environment.directory / "cache").rglob("*.so"))) == 1
