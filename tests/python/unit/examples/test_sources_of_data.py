"""Where the examples have their data from, without a network."""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "examples"))

import austen
import debian
import fashion_mnist


def filled(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in fashion_mnist.FILES:
        (directory / name).touch()
    return directory


@pytest.fixture
def nothing_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which there is no data set."""
    monkeypatch.delenv("FASHION_MNIST_DIR", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setattr(fashion_mnist, "INSTALLED", tmp_path / "installed")
    monkeypatch.setattr(fashion_mnist, "FETCHED", tmp_path / "fetched")
    monkeypatch.setattr(austen, "NOVELS", Path("no/such/novels"))
    monkeypatch.setattr(austen, "FETCHED", tmp_path / "fetched")
    return tmp_path


def source(name: str, what: Callable[[Path], Path]) -> Callable[[Path], Path]:
    what.__name__ = name
    return what


def without(directory: Path) -> Path:
    raise OSError


def test_what_is_there_is_taken_in_order(
    nothing_is_there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = filled(nothing_is_there / "fetched" / "debian_package")
    monkeypatch.setattr(fashion_mnist, "_keras_download", source("_keras_download", without))
    assert fashion_mnist.fetch() == fetched
    assert fashion_mnist.fetch() != filled(nothing_is_there / "installed").parent
    assert fashion_mnist.fetch() == nothing_is_there / "installed"
    cache = filled(nothing_is_there / "keras" / "datasets" / "fashion-mnist")
    assert fashion_mnist.fetch() == cache
    named = filled(nothing_is_there / "named")
    monkeypatch.setenv("FASHION_MNIST_DIR", str(named))
    assert fashion_mnist.fetch() == named
    (named / fashion_mnist.FILES[2]).unlink()
    with pytest.raises(FileNotFoundError, match=f"named has no {fashion_mnist.FILES[2]}"):
        fashion_mnist.fetch()


def test_sources_are_tried_in_order_each_for_a_limited_time(
    nothing_is_there: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(debian, "SECONDS", 0.2)
    monkeypatch.setattr(fashion_mnist, "_keras_download", source("_keras_download", without))

    def slow(directory: Path) -> Path:
        debian.run("sleep", "600")
        return directory

    monkeypatch.setattr(fashion_mnist, "_debian_package", source("_debian_package", slow))
    digits = source("_scikit_learn_digits", lambda directory: filled(directory / "made"))
    monkeypatch.setattr(fashion_mnist, "_scikit_learn_digits", digits)
    assert fashion_mnist.fetch() == nothing_is_there / "fetched" / "scikit_learn_digits"
    assert capsys.readouterr().err.splitlines() == [
        "fashion_mnist: trying keras_download",
        "fashion_mnist: keras_download: ",
        "fashion_mnist: trying debian_package",
        "fashion_mnist: debian_package: sleep took more than 0.2 s",
        "fashion_mnist: trying scikit_learn_digits",
    ]


def test_no_source_works(nothing_is_there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_keras_download", "_debian_package", "_scikit_learn_digits"):
        monkeypatch.setattr(fashion_mnist, name, source(name, without))
    with pytest.raises(FileNotFoundError, match="set FASHION_MNIST_DIR"):
        fashion_mnist.fetch()


def test_a_command_that_fails_says_why_in_a_line() -> None:
    with pytest.raises(OSError, match=r"^sh: the reason$"):
        debian.run("sh", "-c", "echo first >&2; echo the reason >&2; exit 3")
    with pytest.raises(OSError, match=r"^sh: exit code 3$"):
        debian.run("sh", "-c", "exit 3")


def of_r(*lines: str) -> bytes:
    """An object of an R database with a vector of strings, as R stores it."""
    data = b"X\n\x00\x00\x00\x03\x00\x00\x00\x10" + struct.pack(">I", len(lines))
    for line in lines:
        data += b"\x00\x04\x00\x09" + struct.pack(">I", len(line.encode())) + line.encode()
    packed = zlib.compress(data)
    return struct.pack(">I", len(data)) + packed


def test_novels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "novels.rdb"
    database.write_bytes(of_r("SENSE", "", "by Jane") + of_r("Emma – a novel"))
    monkeypatch.setattr(austen, "fetch", lambda: database)
    assert austen.load() == "SENSE\n\nby Jane\nEmma – a novel\n"


def test_novels_are_fetched_once(nothing_is_there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpack(package: str, directory: Path) -> None:
        assert package == "r-cran-janeaustenr"
        (directory / austen.NOVELS).parent.mkdir(parents=True)
        (directory / austen.NOVELS).write_bytes(of_r("Emma"))

    monkeypatch.setattr(debian, "unpack", unpack)
    assert austen.load() == "Emma\n"
    monkeypatch.setattr(debian, "unpack", lambda *_: pytest.fail("again"))
    assert austen.load() == "Emma\n"


def test_novels_cannot_be_fetched(nothing_is_there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpack(package: str, directory: Path) -> None:
        raise OSError("apt-get: no network")

    monkeypatch.setattr(debian, "unpack", unpack)
    with pytest.raises(FileNotFoundError, match="--text FILE: apt-get: no network"):
        austen.fetch()
