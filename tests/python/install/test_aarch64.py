"""The wheel for aarch64, made on this machine, in a Python for aarch64 that qemu runs here.

Debian has the compiler and the emulator in g++-aarch64-linux-gnu and qemu-user.
"""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
import symbols

from tests.wheels import emulated

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests" / "versions" / "programs" / "readme.py"
TENSORFLOW = "2.21.0"
TIMEOUT = 1100.0  # seconds for what is emulated
# Of the head of a library: the field for the processor, and its value.
MACHINE_OF_ELF, AARCH64 = slice(18, 20), b"\xb7\x00"

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.timeout(TIMEOUT + 50),
    pytest.mark.skipif(bool(emulated.missing()), reason=f"missing: {emulated.missing()}"),
]


@pytest.fixture(scope="module")
def environment() -> emulated.Environment:
    """The emulated Python, with TensorFlow. It stays for the next time."""
    return emulated.Environment(ROOT / "build" / "emulated", TENSORFLOW)


@pytest.fixture(scope="module")
def wheel(build_wheel, environment) -> Path:
    return build_wheel("aarch64", str(environment.python))


def test_it_is_for_the_processor_and_its_old_systems(wheel: Path, tmp_path: Path) -> None:
    assert wheel.stem.rsplit("-", 3)[1:] == ["py3", "none", "manylinux_2_17_aarch64"]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    libraries = sorted((tmp_path / "kungfu_tf" / "lib").glob("*.so*"))
    assert [path.name for path in libraries] == ["libkungfu.so.1", "libkungfu_ops-2.21.so"]
    for library in libraries:
        assert library.read_bytes()[MACHINE_OF_ELF] == AARCH64
    assert symbols.newest_needed(libraries)["GLIBC"] == symbols.version("GLIBC_2.17")


def test_two_peers_train_as_one_process(wheel: Path, environment, tmp_path: Path) -> None:
    environment.install(wheel)
    python = environment.python
    environ = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}
    result = subprocess.run(
        [python, "-m", "kungfu_tf.launcher", "-np", "2", python, PROGRAM],
        env={**environ, "PYTHONNOUSERSITE": "1", "KUNGFU_CACHE_DIR": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
    )
    # The program compares the weights with those of plain Keras, and between the peers.
    assert result.returncode == 0 and "digest readme" in result.stdout, result.stdout
    assert list(tmp_path.iterdir()) == []  # nothing was compiled
