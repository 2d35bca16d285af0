"""Programs of harness/warm run and end as if Python had started them."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from harness import warm
from harness.launch import environment

BEGINS = """
import json, os, sys
print(json.dumps([sys.argv, os.getcwd(), os.environ["KUNGFU_JOB_ID"], "tensorflow" in sys.modules]))
print(os.getpid(), flush=True)
"""


def start(program: Path, text: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
    program.write_text(BEGINS + text)
    mine = {**environment(), "PYTHONUNBUFFERED": "1", "KUNGFU_SELF": "127.0.0.1:38001"}
    return subprocess.Popen(
        [*warm.python(mine), str(program), *arguments],
        env={**mine, "KUNGFU_JOB_ID": "here", **env},
        cwd=program.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_has_what_its_start_was_given(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    output, errors = start(program, "sys.exit(3)", "a", "b c").communicate()
    given = json.loads(output.splitlines()[0])
    assert given == [[str(program), "a", "b c"], str(tmp_path), "here", True], errors


@pytest.mark.parametrize(
    ("ends", "code"), [("", 0), ("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9), ("1 / 0", 1)]
)
def test_its_end_is_that_of_its_start(ends: str, code: int, tmp_path: Path) -> None:
    started = start(tmp_path / "program.py", ends)
    _, errors = started.communicate()
    assert started.returncode == code, errors
    assert ("ZeroDivisionError" in errors) == (code == 1)


def test_signals_are_passed_on(tmp_path: Path) -> None:
    handles = "import signal\nsignal.signal(15, lambda *_: sys.exit(7))\nprint(1)\nsignal.pause()"
    with start(tmp_path / "program.py", handles) as started:
        assert started.stdout is not None
        while started.stdout.readline() != "1\n":
            pass
        started.send_signal(signal.SIGTERM)
    assert started.returncode == 7


def test_it_ends_with_its_start(tmp_path: Path) -> None:
    with start(tmp_path / "program.py", "import signal\nsignal.pause()") as started:
        assert started.stdout is not None
        started.stdout.readline()
        pid = int(started.stdout.readline())
        started.kill()
        assert started.stdout.read() == ""  # no process has it open any more
    assert started.returncode == -signal.SIGKILL
    assert not Path(f"/proc/{pid}").exists()


def test_another_environment_of_what_is_imported_is_an_error(tmp_path: Path) -> None:
    started = start(tmp_path / "program.py", "", TF_USE_LEGACY_KERAS="?")
    _, errors = started.communicate()
    assert started.returncode == 1
    assert "another environment: ['TF_USE_LEGACY_KERAS']" in errors
