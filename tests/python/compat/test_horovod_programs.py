"""Programs that were written for Horovod run on two peers, without an edit, and train alike."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kungfu_tf.info import tensorflow_version

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).with_name("programs")
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "KUNGFU_COLLECTIVE_TIMEOUT": "120",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_NUM_INTRAOP_THREADS": "1",
}
SAMPLES = 256
BATCH = 32  # of all peers
RATE = 0.04  # that all peers train with
HAS_KERAS_3 = not tensorflow_version().startswith("2.15")
FLAGS = ["--fusion-threshold-mb", "32", "--verbose"]  # of horovodrun


def elsewhere(is_here: bool) -> list[pytest.MarkDecorator]:
    """Leaves a case to `make test-all`, but with the TensorFlow where most can go wrong."""
    return [] if is_here else [pytest.mark.exhaustive]


def run(program: str, flags: int | list[str], *arguments: object) -> str:
    """What its processes print. Flags that are a number say how many processes there are."""
    size = ["-np", str(flags)] if isinstance(flags, int) else flags
    launcher = [sys.executable, "-m", "kungfu_tf.launcher", "-compat", "horovod"]
    command = [sys.executable, str(PROGRAMS / program), *map(str, arguments)]
    return output_of([*launcher, *size, *FLAGS, *command])


def output_of(command: list[str]) -> str:
    job = subprocess.run(
        command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=400
    )
    assert job.returncode == 0, job.stdout + job.stderr
    return job.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images and labels in the form of MNIST's: a bright column tells the class."""
    random = np.random.default_rng(seed=1)
    labels = random.integers(0, 10, SAMPLES).astype(np.uint8)
    images = random.integers(0, 64, (SAMPLES, 28, 28), dtype=np.uint8)
    images[np.arange(SAMPLES), :, 2 * labels] = 255
    path = tmp_path_factory.mktemp("data") / "mnist.npz"
    np.savez(path, x_train=images, y_train=labels)
    return path


def trained(
    program: str, size: int, data: Path, folder: Path, *options: object
) -> list[np.ndarray]:
    """The weights that rank 0 has saved. The peers share the batches, and the rate that they scale.

    They print the same numbers.
    """
    folder.mkdir(exist_ok=True)
    shares = ["--batch-size", BATCH // size, "--base-lr", RATE / size]
    output = run(
        program, size, "--data", data, "--output", folder / "weights.npz", *shares, *options
    )
    said_the_same(output, size)
    with np.load(folder / "weights.npz") as arrays:
        return list(arrays.values())


def said_the_same(output: str, size: int) -> None:
    for what in ("checksum", "loss", "from epoch"):
        lines = re.findall(rf"^\[\d+\] ({what}:? .*)$", output, re.MULTILINE)
        assert len(lines) in ((size,) if what == "checksum" else (0, size)), output
        assert len(set(lines)) <= 1, output


def assert_close(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("hvd_keras.py", ["--warmup-epochs", 0]),  # which depends on the number of peers
        pytest.param("hvd_tape.py", [], marks=elsewhere(HAS_KERAS_3)),
        pytest.param("hvd_session.py", [], marks=elsewhere(not HAS_KERAS_3)),
    ],
)
def test_two_peers_train_as_one(
    program: str, options: list[object], data: Path, tmp_path: Path
) -> None:
    together = trained(program, 2, data, tmp_path / "two", *options)
    assert_close(together, trained(program, 1, data, tmp_path / "one", *options))


@pytest.mark.exhaustive
def test_a_warm_up(data: Path, tmp_path: Path) -> None:
    shares = ["--data", data, "--output", tmp_path / "weights.npz", "--base-lr", RATE / 2]
    output = run("hvd_keras.py", 2, *shares)
    said_the_same(output, 2)
    assert "Epoch 2: finished gradual learning rate warmup to 0.04." in output


@pytest.mark.exhaustive
def test_a_program_goes_on_from_its_checkpoint(data: Path, tmp_path: Path) -> None:
    name = "hvd_resume.py"

    def to(epoch: int, folder: str, size: int) -> list[np.ndarray]:
        format = tmp_path / folder / "checkpoint-{epoch}.keras"
        options = ["--checkpoint-format", format, "--epochs", epoch]
        return trained(name, size, data, tmp_path / folder, *options)

    half = to(2, "two", 2)
    together = to(4, "two", 2)
    alone = to(4, "one", 1)
    assert_close(together, alone)
    assert not np.allclose(half[0], alone[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["hvd_objects.py"], marks=elsewhere(HAS_KERAS_3)),
        pytest.param(["hvd_uneven.py"], marks=elsewhere(not HAS_KERAS_3)),
        pytest.param(["hvd_benchmark.py"], marks=pytest.mark.exhaustive),
        pytest.param(["hvd_benchmark.py", "--fp16-allreduce"], marks=elsewhere(HAS_KERAS_3)),
    ],
    ids=" ".join,
)
def test_runs(arguments: list[str], tmp_path: Path) -> None:
    timeline = tmp_path / "trace.json"
    flags = ["-np", "2", "--timeline-filename", str(timeline)]
    output = run(arguments[0], flags, *arguments[1:])
    said_the_same(output, 2)
    for path in (timeline, tmp_path / "trace.json.1"):
        assert {event["ph"] for event in json.loads(path.read_text())} == {"M", "b", "e"}
    if "benchmark" in arguments[0]:
        assert re.search(r"^\[0\] Total img/sec on 2 CPU\(s\): \d", output, re.MULTILINE), output


def test_a_program_that_starts_its_processes(tmp_path: Path) -> None:
    install = "from kungfu_tf import compat; compat.install('horovod')"
    start = f"{install}; import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"
    program = str(PROGRAMS / "hvd_run.py")
    output = output_of([sys.executable, "-c", f"import sys; {start}", program])
    assert output.splitlines()[-1] == "results: [10.0, 10.0]"


# Processes come and go; or some are lost; or both.
CHANGES = ["-w", "-np", "1", "-H", "127.0.0.1:3"]
CHANGES_AND_SURVIVES = ["-w", "-np", "2", "-H", "127.0.0.1:3", "-on-failure", "survive-all"]
SURVIVE = ["-np", "3", "-on-failure", "survive"]
SURVIVE_ALL = ["-np", "3", "--min-np", "2"]  # as horovodrun has them


def last_lines(output: str, what: str) -> list[str]:
    """The lines of the processes that have come to the end, which all say the same."""
    lines = re.findall(rf"^\[\d+\] ({what}: .*)$", output, re.MULTILINE)
    assert len(set(lines)) == 1, output
    return lines


@pytest.mark.parametrize(
    ("flags", "plan", "sizes"),
    [
        (CHANGES, {3: 3, 6: "fail", 9: 2}, [1] * 4 + [3] * 6 + [2] * 2),
        pytest.param(
            *(SURVIVE, {3: "die", 6: "fail"}, [3] * 3 + [2] * 9), marks=elsewhere(HAS_KERAS_3)
        ),
        pytest.param(SURVIVE, {3: "ask"}, [3] * 3 + [2] * 9, marks=elsewhere(not HAS_KERAS_3)),
        pytest.param(
            *(SURVIVE_ALL, {3: "raise"}, [3] * 3 + [2] * 9), marks=elsewhere(not HAS_KERAS_3)
        ),
        pytest.param(
            CHANGES_AND_SURVIVES,
            {1: 3, 3: "die", 5: 3, 7: "raise", 8: "fail", 10: 1},
            [2, 2, 3, 2, 2, 2, 3, 2, 2, 2, 2, 1],
            marks=elsewhere(HAS_KERAS_3),
        ),
    ],
    ids=["changes", "die", "ask", "raise", "all"],
)
def test_an_elastic_loop(flags: list[str], plan: dict[Any, Any], sizes: list[int]) -> None:
    output = run("hvd_elastic.py", flags, "--plan", json.dumps(plan))  # it knows its weights
    assert last_lines(output, "sizes") == [f"sizes: {sizes}"] * sizes[-1]


@pytest.mark.parametrize(
    ("flags", "happens", "sizes"),
    [
        pytest.param(
            *(CHANGES, {(1, 2): 3, (2, 1): 2}, [1] * 8 + [3] * 6 + [2] * 8),
            marks=elsewhere(HAS_KERAS_3),
        ),
        pytest.param(
            *(SURVIVE, {(1, 2): "die"}, [3] * 7 + [2] * 13), marks=elsewhere(not HAS_KERAS_3)
        ),
        # Its epoch begins anew with the last commit, after two of its batches; and once more if the
        # launcher says only then who is lost.
        pytest.param(
            *(SURVIVE_ALL, {(1, 2): "raise"}, [3] * 6 + [2] * 12), marks=elsewhere(HAS_KERAS_3)
        ),
        pytest.param(
            CHANGES_AND_SURVIVES,
            {(0, 2): 3, (1, 2): "die", (2, 1): 3},
            [2] * 4 + [3] * 7 + [2] * 7 + [3] * 8,
            marks=elsewhere(not HAS_KERAS_3),
        ),
    ],
    ids=["changes", "die", "raise", "all"],
)
def test_an_elastic_fit(flags: list[str], happens: dict[Any, Any], sizes: list[int]) -> None:
    plan = {str([*where]): what for where, what in happens.items()}
    output = run("hvd_elastic_keras.py", flags, "--plan", json.dumps(plan))
    lines = last_lines(output, "epochs")
    assert len(lines) == sizes[-1]
    found = re.match(r"epochs: (\d+), sizes: (.*), rate: (.*), checksum", lines[0])
    assert found is not None
    assert found[1] == "4" and json.loads(found[2])[: len(sizes)] == sizes, output
    assert float(found[3]) == pytest.approx(0.05 * sizes[-1])
