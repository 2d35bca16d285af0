"""`python -m kungfu_tf.info`: what it prints, in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kungfu_tf as kf
from kungfu_tf.native import environment

COMMAND = [sys.executable, "-m", "kungfu_tf.info"]


def run(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A new process without variables of a job, but with these; by default that of `info`."""
    plain = {name: text for name, text in os.environ.items() if "KUNGFU" not in name}
    return subprocess.run(
        command or COMMAND, env=plain | environ, capture_output=True, text=True, timeout=200
    )


def output(*command: str, **environ: str) -> str:
    """What it prints, where nothing is wrong."""
    ended = run(*command, **environ)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_every_variable_is_printed() -> None:
    program = "import sys, kungfu_tf.info as i; i.main(); assert 'tensorflow' not in sys.modules"
    text = output(sys.executable, "-c", program)
    users, launchers = text.split("Variables that you may set")[1].split("Variables that the laun")
    for setting in environment.settings():
        section = launchers if setting.internal else users
        assert f"\n  {setting.name} " in section
    assert kf.__version__ in text
    assert "waits for (a number above 0, at most 1e9, in seconds)  [default: 10]\n" in text


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, ["nothing that has peers"]),
        ({"KUNGFU_SELF": "127.0.0.1:10000"}, ["kungfu-run"]),
        (
            {**TORCHRUN, "MASTER_ADDR": "a", "MASTER_PORT": "7000"},
            [
                "torchrun or a similar launcher (RANK=1, WORLD_SIZE=2): rank 1 of 2",
                "rank 0 is at a:7001",
                "the secret is from ~/.kungfu/secret",
            ],
        ),
        (
            {"TF_CONFIG": '{"cluster": {"worker": ["", ""]}, "task": {"type": "worker"}}'},
            ["TF_CONFIG (TF_CONFIG={", "set KUNGFU_LEADER", "set KUNGFU_SECRET"],
        ),
        (
            {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps"}}'},
            ["TF_CONFIG makes this process parameter server 0"],
        ),
        ({**TORCHRUN, "PMI_RANK": "0", "PMI_SIZE": "2"}, ["torchrun or a similar launcher (RANK"]),
        ({**TORCHRUN, "KUNGFU_ENVIRONMENT": "none"}, ["nothing that has peers"]),
        (
            {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "4"},
            ["nothing that has peers", "but its Slurm job has 4 tasks: SLURM_NTASKS=4. Start"],
        ),
    ],
)
def test_the_launcher_is_told_and_how_it_is_known(environ: dict[str, str], told: list[str]) -> None:
    _, _, text = output(**environ).split("\n\n")[0].partition("started by ")
    lines = [line.strip() for line in text.splitlines()]
    assert [line[: len(begins)] for line, begins in zip(lines, told, strict=True)] == told


DIFFERENT = "raise ImportError('info imports no Keras')\n__version__ = '3.98.0'\n"


@pytest.mark.parametrize(
    ("files", "version"),
    [
        pytest.param(
            {"__init__.py": DIFFERENT, "src/version.py": '__version__ = "3.99.0.dev2026"\n'},
            "3.99.0.dev2026",
            id="Keras 3",
        ),
        pytest.param({"__init__.py": DIFFERENT}, "3.98.0", id="Keras 2"),
        pytest.param({"__init__.py": "raise ImportError\n"}, "3.1.0", id="metadata"),
    ],
)
def test_keras_is_the_one_that_is_imported(
    tmp_path: Path, files: dict[str, str], version: str
) -> None:
    """Of `keras` and `keras-nightly` the later one has replaced the files of the other."""
    for name, text in files.items():
        file = tmp_path / "keras" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for package, metadata in (("keras", "3.1.0"), ("keras_nightly", "3.2.0.dev2025")):
        folder = tmp_path / f"{package}-{metadata}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {metadata}\n"
        )
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    assert f"\nKeras        {version}\n" in output(PYTHONPATH=path)


def test_it_says_which_versions_cannot_be_used() -> None:
    program = """
from kungfu_tf import info
info.tensorflow_version = lambda: "2.14.1"
kerases = {"keras": "3.2.1", "tf_keras": "2.14.2"}
info.keras_version = lambda package, distributions: kerases[package]
info.main()
"""
    lines = output(sys.executable, "-c", program).splitlines()
    for title, found, oldest in (
        ("TensorFlow   2.14.1", "TensorFlow 2.14.1", "2.15"),
        ("Keras        3.2.1", "keras 3.2.1", "3.3"),
        ("tf-keras     2.14.2", "tf_keras 2.14.2", "2.15"),
    ):
        said = f"{found} cannot be used with kungfu_tf: it is older than {oldest}. Supported are"
        assert lines[lines.index(title) + 1].startswith(f"{'':13}{said}")
    assert not any(": compiled at first use" in line for line in lines)


def test_the_output_may_be_read_in_part() -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(COMMAND, text=True, **pipes) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()  # before it has begun to write
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("environ", "code", "said"),
    [
        ({"KUNGFU_STRATEGY": "ring", "KUNGFU_GRACE": "7"}, 0, ["[ring]", ", in seconds)  [7]"]),
        ({"KUNGFU_TRANSPROT": "shm"}, 0, ["  there is no variable KUNGFU_TRANSPROT; did you mean"]),
        (
            {"KUNGFU_SPIN": "long", "KUNGFU_GRACE": "soon"},
            1,
            [
                "[cannot be understood: KUNGFU_SPIN='long': expected auto, or ",
                "='soon': expected a",
            ],
        ),
    ],
)
def test_it_says_what_is_in_force_and_what_is_not_understood(
    environ: dict[str, str], code: int, said: list[str]
) -> None:
    ended = run(**environ)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert all(words in ended.stdout for words in said), ended.stdout


def test_it_says_where_there_is_no_home() -> None:
    program = """
from pathlib import Path
from kungfu_tf import info
from kungfu_tf.native import libraries
def no_home():
    raise RuntimeError("there is no home")
Path.home, libraries.op_libraries = no_home, dict
raise SystemExit(info.main())
"""
    text = output(sys.executable, "-c", program)
    assert text.count("there is no home") == 2
    assert "compiled at first use, in none, there is no home\n" in text
    assert "(path)  [none: there is no home]\n" in text


def test_secrets_are_not_printed() -> None:
    settings = environment.settings()
    secrets = {setting.name for setting in settings if setting.secret}
    assert secrets == {s.name for s in settings if s.name.endswith(("SECRET", "TOKEN"))}
    text = output(**dict.fromkeys(secrets, "hidden"))
    assert "hidden" not in text
    assert text.count("[set]") == len(secrets)
