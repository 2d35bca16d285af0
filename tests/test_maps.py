"""The maps of the sources, ops/README.md and kungfu_tf/README.md, name what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUFFIX = {"kungfu_tf": ".py", "ops": ".h"}
ROOMS = {"kungfu_tf": "*/*.py", "ops": "**/*.h"}  # what stands in each folder that a map names


@pytest.mark.parametrize("folder", SUFFIX)
def test_each_file_that_a_map_names_is_there(folder: str) -> None:
    text = (ROOT / folder / "README.md").read_text()
    there = [f"{path}" for part in (folder, "tests") for path in (ROOT / part).rglob("*.*")]
    named = set(re.findall(rf"`([\w/]+\{SUFFIX[folder]})`", text))
    missing = [name for name in named if not any(path.endswith(f"/{name}") for path in there)]
    assert named
    assert missing == []


@pytest.mark.parametrize("folder", SUFFIX)
def test_each_folder_is_on_its_map(folder: str) -> None:
    text = (ROOT / folder / "README.md").read_text()
    folders = {path.parent.name for path in (ROOT / folder).glob(ROOMS[folder])}
    assert {name for name in folders if f"`{name}/`" not in text} == set()


# A question of somebody new, the file that answers it, and the definition there.
QUESTIONS = {
    "Which Keras versions work?": ("kungfu_tf/upstream/versions.py", "SUPPORTED ="),
    "What of Keras is patched?": ("kungfu_tf/keras/patches.py", "KERAS_3 ="),
    "What of TensorFlow's sessions is patched?": ("kungfu_tf/tf1/patches.py", "SESSION ="),
    "What does fit do first?": ("kungfu_tf/keras/fit/run.py", "def fit("),
    "What is known of a call of fit?": ("kungfu_tf/keras/fit/call.py", "class Fit:"),
    "Which data does fit train on?": ("kungfu_tf/keras/fit/even_data.py", "class EvenData:"),
    "Which arguments of fit must be equal on all peers?": (
        *("kungfu_tf/keras/fit/agreement.py", "def _meetings("),
    ),
    "Which callbacks of the user run on rank 0 only?": (
        *("kungfu_tf/keras/fit/callbacks.py", "_WRITERS ="),
    ),
    "Where do peers with fewer batches go on with empty ones?": (
        *("kungfu_tf/data/even.py", "def prolong("),
    ),
    "Who is dealt which samples?": ("kungfu_tf/data/shard.py", "def shard("),
    "Where are a gradient's buckets planned?": ("kungfu_tf/exchange/buckets.py", "def plan("),
    "Which steps does a gradient pass before it travels?": (
        *("kungfu_tf/exchange/mean_gradients.py", "def mean_gradients("),
    ),
    "What is the running code part of?": (
        *("kungfu_tf/context/surroundings.py", "class Surroundings"),
    ),
    "What may a method of one's own do around an update?": (
        *("kungfu_tf/exchange/algorithm.py", "class Algorithm"),
    ),
    "How does an optimizer become a distributed one?": (
        *("kungfu_tf/exchange/wrap.py", "def wrap("),
    ),
    "Why does a batch count by its samples?": (
        *("kungfu_tf/replicas/sample_weights.py", "def samples("),
    ),
    "Where are the peers' weights compared?": (
        *("kungfu_tf/replicas/equality.py", "def check_equal("),
    ),
    "How do the peers draw different random numbers?": (
        *("kungfu_tf/replicas/randomness.py", "def of_this_peer("),
    ),
    "What happens to the others when fit fails on one peer?": (
        *("kungfu_tf/membership/failing_together.py", "def announce_failure("),
    ),
    "How is a schedule of sizes read?": ("kungfu_tf/ops/schedule.py", "class Schedule"),
    "By which names do the peers match operations?": ("kungfu_tf/ops/naming.py", "def make_tag("),
    "Which library of ops is loaded?": ("kungfu_tf/native/libraries.py", "def load_ops("),
    "Where is an op library compiled?": ("kungfu_tf/native/build.py", "def build_op_library("),
    "Where does Prometheus get its answer?": ("kungfu_tf/monitor/endpoint.py", "class Endpoint"),
    "Which variables of Python's are there?": ("kungfu_tf/config.py", "SETTINGS:"),
    "Which event loop has a host's runner?": (
        *("kungfu_tf/launcher/command/job_loop.py", "class JobLoop"),
    ),
    "What are kungfu-run's flags?": ("kungfu_tf/launcher/options/flags.py", "FLAGS ="),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_one_answer_in_a_room_of_the_map(question: str) -> None:
    file, definition = QUESTIONS[question]
    answer = ROOT / file
    assert definition in answer.read_text()
    room = answer.parent.relative_to(ROOT / "kungfu_tf").parts[:1] or (answer.name,)
    text = (ROOT / "kungfu_tf" / "README.md").read_text()
    assert f"`{room[0]}`" in text or f"`{room[0]}/`" in text
    beside = [path for path in answer.parent.glob("*.py") if definition in path.read_text()]
    assert beside == [answer]
