"""The native libraries: the right libraries, or a clear error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import tensorflow as tf

from kungfu_tf import errors
from kungfu_tf.native import build, libraries

MINOR = build.minor_version(tf.__version__)


@pytest.fixture
def library_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in the place of kungfu_tf/lib."""
    directory = tmp_path / "lib"
    directory.mkdir()
    monkeypatch.setattr(libraries, "LIBRARY_DIR", directory)
    return directory


def output_of(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


def needed(library: Path) -> str:
    return output_of("readelf", "--dynamic", "--wide", str(library))


def shown(library: Path) -> list[str]:
    symbols = output_of("nm", "--dynamic", "--defined-only", str(library))
    return [line.split()[-1] for line in symbols.splitlines()]


def packaged() -> Path:
    path = libraries._packaged_library(tf.__version__)
    assert path is not None, f"no op library for TensorFlow {MINOR} in {libraries.LIBRARY_DIR}"
    return path


def test_the_missing_core_is_named(library_dir: Path) -> None:
    with pytest.raises(errors.LibraryError, match=str(library_dir / "libkungfu.so.1")):
        libraries._load_core()


def test_a_core_of_another_version_is_refused(library_dir: Path, tmp_path: Path) -> None:
    source = tmp_path / "core.cc"
    source.write_text('extern "C" int kungfu_abi_version() { return 77; }')
    command = [*build.find_compiler(), "-shared", "-fPIC", str(source), "-o"]
    subprocess.run([*command, str(library_dir / "libkungfu.so.1")], check=True, timeout=60)
    with pytest.raises(errors.LibraryError, match="interface 77"):
        libraries._load_core()


def test_the_packaged_library_of_this_tensorflow_is_chosen() -> None:
    marker = build.read_marker(packaged())
    assert marker is not None
    assert build.minor_version(marker.tensorflow) == MINOR


def test_a_library_for_another_tensorflow_is_not_loaded(
    library_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the file says counts, not its name. Another is compiled, or the error says why not."""
    path = library_dir / f"libkungfu_ops-{MINOR}.so"
    path.write_bytes(b"kungfu_ops_build:tensorflow=1.15.0 key=00;")
    assert libraries.op_libraries() == {path: "1.15.0"}
    assert libraries._packaged_library(tf.__version__) is None

    (library_dir / "src" / "ops" / "tensorflow").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(errors.LibraryError, match=r"no C\+\+ compiler"):
        libraries._load_ops()


def test_missing_sources_are_named(library_dir: Path) -> None:
    with pytest.raises(errors.LibraryError, match=str(library_dir / "src")):
        libraries._load_ops()


def test_a_library_that_tensorflow_cannot_load_is_named(library_dir: Path) -> None:
    path = library_dir / f"libkungfu_ops-{MINOR}.so"
    path.write_bytes(f"kungfu_ops_build:tensorflow={tf.__version__} key=00;".encode())
    with pytest.raises(errors.LibraryError, match=str(path)):
        libraries._load_ops()


def test_the_op_library_shows_its_build_and_what_python_calls_only() -> None:
    assert shown(packaged()) == ["kungfu_ops_build", "kungfu_share_tensors"]


def test_the_core_shows_its_c_interface_only() -> None:
    symbols = shown(libraries.LIBRARY_DIR / "libkungfu.so.1")
    assert set(libraries._FUNCTIONS) <= set(symbols)
    assert [symbol for symbol in symbols if not symbol.startswith("kungfu_")] == []


@pytest.mark.parametrize("word", ["ssl", "crypto", "absl", "protobuf", "grpc", "RUNPATH", "RPATH"])
def test_nothing_is_linked_that_tensorflow_has_a_copy_of(word: str) -> None:
    for library in (packaged(), libraries.LIBRARY_DIR / "libkungfu.so.1"):
        assert word not in needed(library)


def test_the_core_is_found_by_its_name() -> None:
    assert "[libkungfu.so.1]" in needed(packaged())
    assert "soname: [libkungfu.so.1]" in needed(libraries.LIBRARY_DIR / "libkungfu.so.1")
