"""Builds what is not Python. All of it lands in kungfu_tf/lib, which kungfu_tf/native/ opens:

libkungfu.so.1          the core, without TensorFlow
libkungfu_ops-2.21.so   the kernels for the user's TensorFlow; none if none is installed. A wheel of
                        docker/wheels/build.py has one for each TensorFlow
src/ops/                what kungfu_tf/native/ compiles at an op's first use with another one
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

ROOT = Path(__file__).parent.resolve()
SOURCES = ("ops/tensorflow/*", "ops/c_api/*.h")
TIMEOUT = 3600.0  # seconds for each step, on a slow machine that has other things to do


def build_core(lib: Path, directory: str) -> None:
    """Compiles libkungfu.so.1 in a directory, with the cmake and ninja of the build environment."""
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"

    def cmake(*args: str | Path) -> None:
        tools = {**os.environ, "PATH": path}
        subprocess.run(["cmake", *args], check=True, env=tools, timeout=TIMEOUT)

    # Where the directory has been used before, it was with the ninja of another environment.
    ninja = f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja', path=path)}"
    # It is stripped in the end: information for debuggers would be a third of the work in vain.
    kind = "-DCMAKE_BUILD_TYPE=Release"
    cmake("-G", "Ninja", ninja, kind, "-S", ROOT / "ops", "-B", directory)
    cmake("--build", directory, "--target", "kungfu")
    cmake("--install", directory, "--prefix", lib)


def copy_sources(lib: Path) -> None:
    """Puts the kernels' sources where an installed package finds them."""
    for pattern in SOURCES:
        for source in ROOT.glob(pattern):
            target = lib / "src" / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def has_tensorflow(python: str) -> bool:
    """Whether the user's environment has TensorFlow.

    Under pip's build isolation `-I` is what lets the user's own packages be seen: it ignores the
    PYTHONPATH through which pip hides them.
    """
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow') is None)"
    return subprocess.run([python, "-I", "-c", find], timeout=TIMEOUT).returncode == 0


def load_build_module() -> ModuleType:
    """The module by its path: importing the package would need what is built here."""
    path = ROOT / "kungfu_tf" / "native" / "build.py"
    spec = importlib.util.spec_from_file_location("build", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def build_ops(lib: Path) -> None:
    """Compiles the op library for the TensorFlow of the user's environment."""
    load_build_module().build_op_library(
        lib, python=sys.executable, core_dir=lib, source_dir=ROOT, timeout=TIMEOUT
    )


def build_described_ops(lib: Path, descriptions: Path) -> None:
    """Compiles one for each TensorFlow of a file, where their `build.TensorFlow` are lists."""
    module = load_build_module()

    def build_one(description: list) -> None:
        tensorflow = module.TensorFlow(*description)
        module.build_op_library(
            lib, tensorflow=tensorflow, core_dir=lib, source_dir=ROOT, timeout=TIMEOUT
        )

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(build_one, json.loads(descriptions.read_text())))


class BuildNative(Command):
    """The step of `build` that fills kungfu_tf/lib; in an editable install that of the checkout."""

    user_options = [
        ("build-lib=", None, "directory of the built package"),
        ("core-build=", None, "directory where the core's objects stay (default: they do not)"),
        ("tensorflows=", None, "file of those to compile for (default: the one that is there)"),
    ]

    def initialize_options(self) -> None:
        self.build_lib: str | None = None
        self.core_build: str | None = None
        self.tensorflows: str | None = None
        self.editable_mode = False

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    @property
    def lib(self) -> Path:
        assert self.build_lib
        return (ROOT if self.editable_mode else Path(self.build_lib)) / "kungfu_tf" / "lib"

    def run(self) -> None:
        lib = self.lib.resolve()
        if self.core_build:
            build_core(lib, self.core_build)
        else:
            with tempfile.TemporaryDirectory(prefix="kungfu-core-") as scratch:
                build_core(lib, scratch)
        if not self.editable_mode:  # a checkout has them, and they may change
            copy_sources(lib)
        if self.tensorflows:
            build_described_ops(lib, Path(self.tensorflows))
        elif has_tensorflow(sys.executable):
            build_ops(lib)
        else:
            print("no TensorFlow found: the op library will be compiled at the first use of an op")
        strip = os.environ.get("STRIP", "strip")  # as CXX, of another processor perhaps
        libraries = lib.glob("*.so*")
        subprocess.run([strip, "--strip-unneeded", *libraries], check=True, timeout=TIMEOUT)

    def get_outputs(self) -> list[str]:
        if self.editable_mode:
            return []
        return [str(path) for path in self.lib.rglob("*") if path.is_file()]

    def get_output_mapping(self) -> dict[str, str]:
        return {}

    def get_source_files(self) -> list[str]:
        return []  # MANIFEST.in lists them


class BuildOps(Command):
    """`make build`: the op library of this Python's TensorFlow, beside the core of the checkout."""

    user_options = []

    def initialize_options(self) -> None:
        pass

    def finalize_options(self) -> None:
        pass

    def run(self) -> None:
        build_ops(ROOT / "kungfu_tf" / "lib")


class Build(build):
    sub_commands = [*build.sub_commands, ("build_native", None)]

    def run(self) -> None:
        # What an earlier build left here, for another TensorFlow perhaps, is not part of this one.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class BinaryDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class BdistWheel(bdist_wheel):
    """py3-none-linux_x86_64: the libraries are bound to a platform, and to no version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform = super().get_tag()
        return "py3", "none", platform


setup(
    distclass=BinaryDistribution,
    cmdclass={
        "build": Build,
        "build_native": BuildNative,
        "build_ops": BuildOps,
        "bdist_wheel": BdistWheel,
    },
)
