"""Training while peers come and go: one at first, then up to three, as each program plans."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from harness import programs

from kungfu_tf.info import tensorflow_version
from tests import ports

FOLDER = programs.FOLDER

# What each process prints when it ends; those that have come last are there when others have left.
ENDS = {
    "elastic.py": ["detached 0", "finished 2", "detached 0", "finished 2"],
    "elastic_averaging.py": ["0 2", "1 1", "detached"],
    "elastic_context.py": ["0", "1"],
    "elastic_fit.py": ["detached", "detached", "0 True", "detached", "detached"],
    "elastic_loop.py": ["0", "1", "detached", "detached"],
    "elastic_meanwhile.py": ["0", "1"],
    "elastic_pairs.py": ["detached", "0", "1", "2", "detached"],
    "elastic_policies.py": ["0", "1"],
    "elastic_saves.py": ["detached", "0", "1"],
    "elastic_session.py": ["0", "1", "detached"],
    "elastic_session_pairs.py": ["0 2", "1 2", "detached"],
}
# Each where it says something new.
PROGRAMS = ["elastic_fit.py"]
# What they say of membership the others say, too.
EXHAUSTIVE = {"elastic_averaging.py", "elastic_context.py", "elastic_meanwhile.py"}
EXHAUSTIVE |= {"elastic_pairs.py", "elastic_session_pairs.py"}
OF_KERAS_3_TOO = {"elastic_loop.py", "elastic_saves.py"}
BENCHMARK = FOLDER.parents[3] / "benchmarks" / "programs" / "elastic.py"
IS_KERAS_2 = tensorflow_version().startswith("2.15")
EXHAUSTIVE |= OF_KERAS_3_TOO if IS_KERAS_2 else set()
IS_LEGACY = os.environ.get("TF_USE_LEGACY_KERAS") == "1"
if not IS_LEGACY:
    of_both = ["context", "loop", "meanwhile", "pairs", "saves"]
    PROGRAMS += [f"elastic_{name}.py" for name in of_both]
    of_sessions = ["session", "session_pairs", "averaging", "policies"]
    PROGRAMS += [f"elastic_{name}.py" for name in of_sessions] if IS_KERAS_2 else ["elastic.py"]


def ran(
    program: Path, *arguments: str, peers: int = 1, slots: int = 4, server: str | None = None
) -> str:
    """What its peers print."""
    hosts = ["-w", "-np", str(peers), "-H", f"127.0.0.1:{slots}"]
    hosts += ["-config-server", server] if server else []
    return programs.run(
        program, *arguments, flags=hosts, env={"KUNGFU_CONFIG_TOKEN": "t" * 32}
    ).stdout


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(name, marks=pytest.mark.exhaustive) if name in EXHAUSTIVE else name
        for name in PROGRAMS
    ],
)
def test_training_goes_on(program: str, tmp_path: Path) -> None:
    """Also what KungFu did not (its issue 297): one change after the other, and rank 0 leaves.

    There peers of different versions waited for each other, and a newcomer became rank 0, so that
    the state was lost.
    """
    port = str(ports.take()[0])
    server = f"http://127.0.0.1:{port}"
    said = ran(FOLDER / program, port, str(tmp_path / "cluster.json"), server=server)
    ended = dict(re.findall(r"^\[(\d)\] ok (.+)$", said, re.MULTILINE))
    assert [ended.get(str(number)) for number in range(len(ended))] == ENDS[program]


@pytest.mark.parametrize("how", ["fit", "loop"])
def test_a_newcomer_learns_which_gradients_others_exchange(how: str) -> None:
    said = ran(FOLDER / "elastic_union.py", how, peers=2, slots=3)
    assert sorted(re.findall(r"^\[\d\] ok (.+)$", said, re.MULTILINE)) == ["0", "1", "2"]


@pytest.mark.skipif(IS_KERAS_2 or IS_LEGACY, reason="shards are for optimizers of Keras 3")
def test_shards_are_of_peers_that_stay() -> None:
    said = ran(FOLDER / "elastic_sharded.py", peers=3)
    assert sorted(re.findall(r"^\[\d\] ok (.+)$", said, re.MULTILINE)) == ["0", "1", "detached"]


def test_a_newcomer_between_two_meetings_gets_the_outer_optimizer() -> None:
    said = ran(FOLDER / "elastic_diloco.py", peers=2, slots=3)
    assert sorted(re.findall(r"^\[\d\] ok (.+)$", said, re.MULTILINE)) == ["0", "1", "2"]


def test_each_record_of_files_is_trained_on_once(tmp_path: Path) -> None:
    said = ran(FOLDER / "elastic_records.py", str(tmp_path), peers=2, slots=3)
    assert sorted(re.findall(r"^\[\d\] ok (.+)$", said, re.MULTILINE)) == ["0", "1", "2"]


@pytest.mark.parametrize("codec", ["power", pytest.param("top", marks=pytest.mark.exhaustive)])
def test_a_newcomer_gets_what_a_codec_has_not_sent(codec: str) -> None:
    said = ran(FOLDER / "elastic_compression.py", codec, peers=2, slots=3)
    assert sorted(re.findall(r"^\[\d\] ok (.+)$", said, re.MULTILINE)) == ["0", "1", "2"]


if not IS_KERAS_2 and not IS_LEGACY:

    @pytest.mark.exhaustive
    def test_what_the_benchmark_runs(tmp_path: Path) -> None:
        report = tmp_path / "report"
        ran(BENCHMARK, str(report), "1")
        changes = [json.loads(line) for line in report.read_text().splitlines()][1:]
        assert [(c["from"], c["to"]) for c in changes] == [(1, 4), (4, 2), (2, 3), (3, 1)]
