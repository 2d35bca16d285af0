"""`make test-wheels`: the wheel with each TensorFlow, in fresh environments without a compiler.

    PYTHONPATH=. python tests/wheels/run.py dist/kungfu_tf-*_x86_64.whl [VERSION OF TENSORFLOW...]

Prints the table of docs/project/wheels.md. An environment takes 2 GB while it is tried. Exits with
1 if a row fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "docker" / "wheels"))
import symbols
import tensorflows

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "keras_mnist.py"
TIMEOUT = 1800.0  # seconds for one command: TensorFlow is a download of 250 MB

# Each TensorFlow, and each Python at least once: (TensorFlow, Python).
ROWS = (
    ("2.15.1", "3.10"),
    ("2.16.2", "3.11"),
    ("2.17.1", "3.12"),
    ("2.18.1", "3.10"),
    ("2.19.1", "3.12"),
    ("2.20.0", "3.13"),
    ("2.21.0", "3.10"),
    ("2.21.0", "3.13"),
)
SETS = ("GLIBC", "GLIBCXX", "CXXABI")
QUERY = """
import json, keras, tensorflow as tf
print(json.dumps([tf.sysconfig.get_compile_flags(), tf.sysconfig.get_lib(), keras.__version__]))
"""


class Failed(Exception):
    """A row does not do what the wheel promises; the message says what."""


@dataclass
class Environment:
    """A virtual environment, and a PATH that has nothing else."""

    directory: Path

    def run(self, *command: str | Path) -> str:
        """What a command prints.

        Raises:
            Failed: It ends with another code than 0, or too late.
        """
        programs = self.directory / "bin"
        variables = {
            "PATH": str(programs),
            "HOME": str(self.directory),
            "KUNGFU_CACHE_DIR": str(self.directory / "cache"),
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        kept = {name: text for name, text in os.environ.items() if name.startswith(("PIP_", "LC_"))}
        try:
            result = subprocess.run(
                [programs / command[0], *command[1:]],
                cwd=self.directory,
                env={**kept, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{command[0]} has not ended in {TIMEOUT:g} s") from None
        if result.returncode != 0:
            raise Failed(f"{command[0]} ended with {result.returncode}: {result.stdout[-2000:]}")
        return result.stdout


def main() -> int:
    wheel, wanted = Path(sys.argv[1]).resolve(), sys.argv[2:]
    print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    print(
        "| TensorFlow | Keras | Python | newest that TensorFlow needs | that we need | accuracy |"
    )
    print(f"|{'---|' * 6}", flush=True)
    failed = 0
    for tensorflow, python in ROWS:
        if wanted and tensorflow not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="kungfu-wheel-") as scratch:
            try:
                cells = attempt(wheel, tensorflow, python, Path(scratch))
            except Failed as failure:
                cells = ["?", python, "?", "?", "FAILED"]
                failed += 1
                print(f"{tensorflow}: {failure}", file=sys.stderr, flush=True)
        print(f"| {' | '.join([tensorflow, *cells])} |", flush=True)
    return 1 if failed else 0


def attempt(wheel: Path, tensorflow: str, python: str, directory: Path) -> list[str]:
    """The cells of a row: Keras, Python, the needs of both, accuracy.

    Raises:
        Failed: It cannot be tried, or something is wrong.
    """
    environment = Environment(directory)
    subprocess.run([interpreter(python), "-m", "venv", directory], check=True, timeout=TIMEOUT)
    environment.run("pip", "install", "--quiet", f"tensorflow-cpu=={tensorflow}", wheel)
    flags, folder, keras = json.loads(environment.run("python", "-c", QUERY).splitlines()[-1])
    if flags[1:] != tensorflows.FLAGS:
        raise Failed(f"it is to be compiled with {flags[1:]}, not {tensorflows.FLAGS}")
    theirs = symbols.newest_needed(sorted(Path(folder).glob("libtensorflow_*.so.2")))
    ours = symbols.newest_needed(libraries(directory, tensorflow))
    for name in SETS:
        if name in ours and ours[name] > theirs[name]:
            raise Failed(f"we need {ours[name]}, TensorFlow only {theirs[name]}")
    train = ("python", PROGRAM, "--epochs", "1", "--steps", "100")
    output = environment.run("kungfu-run", "-np", "2", *train)
    accuracy = re.search(r"test: loss .*, accuracy ([0-9.]+)", output)
    if accuracy is None or (directory / "cache").exists():
        raise Failed(output[-2000:])
    return [keras, python, said(theirs), said(ours), accuracy[1]]


def interpreter(python: str) -> str:
    """The first Python of that version on the PATH that starts."""
    path = shutil.which(f"python{python}")
    if path is None or subprocess.run([path, "-c", ""], timeout=TIMEOUT).returncode != 0:
        raise Failed(f"no python{python} is on the PATH")
    return path


def libraries(environment: Path, tensorflow: str) -> list[Path]:
    """What a process with this TensorFlow loads of ours."""
    (lib,) = environment.glob("lib/python3*/site-packages/kungfu_tf/lib")
    minor = tensorflow.rsplit(".", 1)[0]
    return [lib / "libkungfu.so.1", lib / f"libkungfu_ops-{minor}.so"]


def said(newest: dict[str, symbols.Version]) -> str:
    return ", ".join(str(newest[name]) for name in SETS if name in newest)


if __name__ == "__main__":
    sys.exit(main())
