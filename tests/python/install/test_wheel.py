"""The wheel of `make wheels`: what it asks of a system, and that it needs no compiler there.

One TensorFlow is tried here. `make test-wheels` tries all of them.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import zipfile
from pathlib import Path

import pytest
import symbols

from kungfu_tf import info
from kungfu_tf.native import build

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples" / "keras_mnist.py"
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++")

pytestmark = pytest.mark.timeout(900)  # the core is compiled, beside whatever else there is to do

# What systems of manylinux_2_17 have, besides their C library.
OLDEST_SYSTEM = [symbols.version(text) for text in ("GLIBCXX_3.4.19", "CXXABI_1.3.7", "GCC_4.8.0")]


@pytest.fixture(scope="session")
def libraries(wheel: Path) -> list[Path]:
    """The wheel's libraries: the core, and one with ops."""
    directory = wheel.parent.parent / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    libraries = sorted((directory / "kungfu_tf" / "lib").glob("*.so*"))
    assert len(libraries) == 2
    return libraries


def test_its_name_says_which_c_library_it_needs(wheel, libraries) -> None:
    _, python, abi, platform = wheel.stem.rsplit("-", 3)
    assert (python, abi) == ("py3", "none")
    (major, minor) = re.fullmatch(r"manylinux_(\d+)_(\d+)_x86_64", platform).groups()
    assert symbols.newest_needed(libraries)["GLIBC"].numbers == (int(major), int(minor))


def test_it_needs_nothing_newer_than_its_systems_have(libraries) -> None:
    needed = symbols.newest_needed(libraries)
    assert needed.keys() <= {"GLIBC", *(version.set for version in OLDEST_SYSTEM)}
    newer = [version for version in OLDEST_SYSTEM if needed.get(version.set, version) > version]
    assert newer == []


def test_it_needs_nothing_newer_than_tensorflow(libraries) -> None:
    folder = Path(importlib.util.find_spec("tensorflow").submodule_search_locations[0])
    of_tensorflow = symbols.newest_needed(sorted(folder.glob("libtensorflow_*.so.2")))
    of_ours = symbols.newest_needed(libraries)
    of_ours.pop("GCC")  # the unwinder's, which the C++ library of any such system needs as well
    newer = [version for name, version in of_ours.items() if version > of_tensorflow[name]]
    assert newer == []


def test_it_is_small_and_names_no_path_of_the_builder(libraries, source) -> None:
    for library in libraries:
        assert library.stat().st_size < 2_500_000
        assert str(source).encode() not in library.read_bytes()


def test_it_trains_without_a_compiler(environment, wheel, monkeypatch) -> None:
    environment.show_tensorflow()
    before = environment.files()
    programs = str(environment.directory / "bin")
    monkeypatch.setitem(environment.environ, "PATH", programs)
    for variable in ("CC", "CXX"):
        monkeypatch.delitem(environment.environ, variable, raising=False)
    assert [name for name in COMPILERS if shutil.which(name, path=programs)] == []

    environment.run("pip", "install", "--no-index", str(wheel))
    ops = build.library_name(info.tensorflow_version())
    assert environment.libraries() == {"libkungfu.so.1", ops}
    environment.sums(2)
    train = ["python", str(PROGRAM), "--epochs", "1", "--steps", "20"]
    assert "test: loss" in environment.run("kungfu-run", "-np", "2", *train)
    assert not environment.cache.exists()

    environment.run("pip", "uninstall", "--yes", "kungfu_tf")
    assert environment.files() == before
