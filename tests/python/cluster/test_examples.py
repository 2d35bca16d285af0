"""Every example trains on two peers for a few steps, verified, and rank 0 says what came of it.

Those that change their size begin and end with one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from harness import programs
from harness.launch import environment

import kungfu_tf as kf
from kungfu_tf.info import tensorflow_version

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))

import fashion_mnist  # noqa: E402 (the examples are scripts, not a package)

PATIENT = programs.FOLDER / "patient.py"
# Steps enough to learn from any initial weights: most examples begin with others in each run.
ARGUMENTS = {
    # So near to the best, and so often, some look finds less, however regular the network is.
    "adapt_strategy.py": ["--batch", "8", "--interval", "2", "--threshold", "0.999999"],
    "adaptive_batch_size.py": ["--batch", "4", "--interval", "8"],
    "elastic_mnist.py": ["--epochs", "30", "--schedule", "1:9,2:20,1:1"],
    "keras_everyday.py": ["--epochs", "2", "--steps", "4"],
    "keras_mnist.py": ["--epochs", "1", "--steps", "8"],
    "language_model.py": ["--epochs", "1", "--steps", "20", "--text", str(ROOT / "LICENSE")],
    "gradient_tape_mnist.py": ["--steps", "8"],
    "pair_averaging_mnist.py": ["--epochs", "4", "--steps", "8"],
    "synchronous_averaging_mnist.py": ["--epochs", "4", "--steps", "8", "--momentum", "0.5"],
    "tf1_mnist_session.py": ["--steps", "8"],
}
# What rank 0 says of changes, if they are the point.
SAYS = {
    "adapt_strategy.py": [r"rank 0: strategy (?!RING)\w+: "],
    "adaptive_batch_size.py": [r"step \d+: (?!4 )\d+ samples of each of 2 peers"],
}
ELASTIC = {"elastic_estimator.py", "elastic_mnist.py"}
SAYS |= {name: ["peers: 1$", "peers: 2$", "peers: 1$"] for name in ELASTIC}
# What -verify says of them.
OWN_MODELS = "nothing is verified of 'sequential': each peer trains a model of its own, by design"
NOT_FED = r"nothing is verified of the session but that its \d+ variables are equal on all peers"
VERIFIED = dict.fromkeys(("pair_averaging_mnist.py", "synchronous_averaging_mnist.py"), OWN_MODELS)
VERIFIED |= dict.fromkeys(("estimator_mnist.py", "elastic_estimator.py"), NOT_FED)
# Their methods have tests of their own; that the programs are right is seen by `make test-all`.
EXHAUSTIVE = {"adapt_strategy.py", "adaptive_batch_size.py", "elastic_estimator.py"}
EXHAUSTIVE |= {"language_model.py", "pair_averaging_mnist.py", "synchronous_averaging_mnist.py"}
EXHAUSTIVE |= {"keras_mnist.py"}  # tests/python/install/test_wheel.py has it trained
TESTED = {*ARGUMENTS, "elastic_estimator.py", "estimator_mnist.py"}
# tests/python/unit/examples/test_sources_of_data.py
SOURCES_OF_DATA = {"austen.py", "debian.py", "fashion_mnist.py"}
CONSENSUS = {"consensus.py"}
DEMO = {"demo.py", "demo_train.py"}  # tests/python/unit/examples/test_demo.py
# Not all say something new of an older Keras.
EVERYDAY = "keras_everyday.py"
if tensorflow_version().startswith("2.15"):
    EXHAUSTIVE |= {EVERYDAY}
    ARGUMENTS = {
        EVERYDAY: ARGUMENTS[EVERYDAY],
        "estimator_mnist.py": ["--steps", "8"],
        "elastic_estimator.py": ["--steps", "60", "--schedule", "1:9,2:20,1:1"],
        **{name: ARGUMENTS[name] for name in ("keras_mnist.py", "tf1_mnist_session.py")},
    }
elif os.environ.get("TF_USE_LEGACY_KERAS") == "1":
    ARGUMENTS = {EVERYDAY: ARGUMENTS[EVERYDAY]}


@pytest.fixture(scope="module")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data set in the files of the real one: a bright column tells the class."""
    directory = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(seed=1)
    for part, count in (("train", 512), ("t10k", 128)):
        labels = random.integers(0, 10, count, dtype=np.uint8)
        images = random.integers(0, 64, (count, 28, 28), dtype=np.uint8)
        images[np.arange(count), :, 2 * labels] = 255
        fashion_mnist.write(directory / f"{part}-images-idx3-ubyte.gz", images)
        fashion_mnist.write(directory / f"{part}-labels-idx1-ubyte.gz", labels)
    return directory


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(name, marks=pytest.mark.exhaustive) if name in EXHAUSTIVE else name
        for name in ARGUMENTS
    ],
)
def test_trains_on_two_peers(example: str, data_directory: Path) -> None:
    program = [EXAMPLES / example, "--batch", "64", *ARGUMENTS[example]]
    size = ["-np", "2"]
    if example in ELASTIC:
        size, program = ["-w", "-np", "1", "-H", "127.0.0.1:2"], [PATIENT, *program]
    flags = ["-verify", *size]
    job = programs.run(*program, flags=flags, env={"FASHION_MNIST_DIR": str(data_directory)})
    expected = VERIFIED.get(example, "verified: 3 steps of .* on 2 peers are those of a single pr")
    assert re.search(f"kungfu_tf: -verify: {expected}", job.stderr), job.stderr
    results = re.findall(r"^\[(\d)\] test: .*accuracy (\d\.\d+)$", job.stdout, re.MULTILINE)
    assert [rank for rank, _ in results] == ["0"], job.stdout
    assert float(results[0][1]) > 0.2  # a guess is right once in ten times
    said = "".join(rf"^\[0\] {line}[\s\S]*" for line in SAYS.get(example, []))
    assert re.search(said, job.stdout, re.MULTILINE), job.stdout


@pytest.mark.parametrize("size", [3, pytest.param(5, marks=pytest.mark.exhaustive)])
def test_consensus(size: int) -> None:
    """The number of steps of each topology is that which it promises."""
    job = programs.run(EXAMPLES / "consensus.py", flags=["-np", str(size)])
    lines = r"^\[0\] (\w+): (\d+) steps to 1e-10, (?:exact after (\d+)|never exact)$"
    said = {name: (int(n), exact) for name, n, exact in re.findall(lines, job.stdout, re.MULTILINE)}
    assert len(said) == 5, job.stdout
    steps, exact = said["base_graph"]
    assert steps == int(exact) == kf.topology.base_graph().exact_steps(size)
    for name in ("ring", "star", "exponential"):
        kept = 1 - getattr(kf.topology, name)().spectral_gap(size)
        assert said[name][0] <= 2 + np.log(1e-12) / np.log(max(kept, 1e-12)), (name, kept)


@pytest.mark.exhaustive
def test_the_notebook_of_consensus() -> None:
    """Its cells, one after the other, as a program."""
    cells = json.loads((EXAMPLES / "consensus.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "base_graph: exact after 5 steps" in done.stdout
    assert "one_peer_exponential: never exact" in done.stdout


def test_each_example_is_tested() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts - TESTED - SOURCES_OF_DATA - DEMO - CONSENSUS == set()


def test_each_example_is_short() -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert {name: count for name, count in lines.items() if count > 150} == {}
