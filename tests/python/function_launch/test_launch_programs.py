"""launch in scripts and notebooks: what is run again, and what is left when one is ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DEADLINE = 60.0


class Program:
    """A script in a process of its own, whose job carries a mark in its environment.

    Args:
        grace: Seconds that a peer has to end, between two signals.
    """

    def __init__(self, folder: Path, script: str, grace: int) -> None:
        self._mark = f"TEST_MARK={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        (folder / "script.py").write_text(script)
        (folder / "beside.py").write_text("def fn(rank):\n    return 'beside', rank\n")
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, str(folder / "script.py")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                "TMPDIR": str(self.temporary),
                "KUNGFU_GRACE": str(grace),
                name: value,
            },
        )

    def until_printed(self, *lines: str) -> None:
        """Reads standard output until these have come, in any order."""
        assert self.process.stdout is not None
        missing = set(lines)
        while missing:
            line = self.process.stdout.readline()
            assert line, f"{missing} is missing: {self.process.communicate()}"
            missing.discard(line.rstrip("\n"))

    def end(self) -> tuple[str, str]:
        """What it has printed since, if it ended and nothing of its job remains."""
        out, err = self.process.communicate(timeout=DEADLINE)
        deadline = time.monotonic() + DEADLINE
        while self._left():
            assert time.monotonic() < deadline, f"{self._left()} remains"
            time.sleep(0.01)
        return out, err

    def _left(self) -> list[str]:
        found = [str(path) for path in self.temporary.iterdir()]
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self._mark.encode() in (entry / "environ").read_bytes():
                    found.append(f"pid {entry.name}")
            except OSError:
                continue
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    programs = []

    def start(script: str, *, grace: int = 30) -> Program:
        programs.append(Program(tmp_path, script, grace))
        return programs[-1]

    yield start
    for program in programs:
        program.process.kill()
        program.process.wait()


def test_a_script_without_guard_is_not_run_again(start):
    script = """
import beside
import kungfu_tf as kf
print("top")
SCALE = 10

class Point:
    def __init__(self, x):
        self.x = SCALE * x

def fn(rank):
    return Point(rank)

points = kf.launch(fn, 2)
assert all(type(point) is Point for point in points)
print([point.x for point in points], kf.launch(lambda rank: rank + SCALE, 2))
print(kf.launch(beside.fn, 2))
"""
    out, err = start(script).end()
    assert all("kungfu-run: the peers share" in line for line in err.splitlines()), err
    assert out.splitlines() == ["top", "[0, 10] [10, 11]", "[('beside', 0), ('beside', 1)]"]


# A signal that comes before a pause() is not seen by it. "ready" promises that it finds the try.
WAITS = """
import time
import kungfu_tf as kf

def fn(rank):
    try:
        print("ready", flush=True)
        while True:
            time.sleep(0.01)
    finally:
        print("cleaned", rank, flush=True)
"""


def test_an_interrupt_ends_all(start):
    script = (
        WAITS + "try:\n    kf.launch(fn, 2)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    )
    program = start(script)
    program.until_printed("[0] ready", "[1] ready")
    program.process.send_signal(signal.SIGINT)
    out, err = program.end()
    lines = out.splitlines()
    assert sorted(lines[:-1]) == ["[0] cleaned 0", "[1] cleaned 1"]
    assert lines[-1] == "interrupted"
    assert re.search("^kungfu-run: SIGINT: stopping all peers", err, re.M)
    assert "Traceback" not in err


IGNORES = """
import signal
import kungfu_tf as kf

def fn(rank):
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        signal.pause()

kf.launch(fn, 2)
"""


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_ends_those_that_ignore_it(start, times):
    program = start(IGNORES, grace=1)
    program.until_printed("[0] ready", "[1] ready")
    program.process.send_signal(signal.SIGINT)
    if times == 2:
        assert program.process.stderr is not None
        assert any("once more kills" in line for line in program.process.stderr)
        program.process.send_signal(signal.SIGINT)
    _, err = program.end()
    assert program.process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_when_the_caller_is_killed(start, number):
    program = start(IGNORES, grace=1)
    program.until_printed("[0] ready", "[1] ready")
    program.process.send_signal(number)
    program.end()
    assert program.process.returncode == -number


def test_when_the_runner_is_killed(start):
    script = (
        WAITS.replace('print("ready"', 'print("ready", os.getppid()')
        + """
try:
    kf.launch(fn, 1)
except kf.errors.UnavailableError as error:
    print(error)
"""
    )
    program = start("import os\n" + script)
    assert program.process.stdout is not None
    runner = int(program.process.stdout.readline().split()[-1])
    os.kill(runner, signal.SIGKILL)
    out, _ = program.end()
    assert "the process that starts and watches the others was killed" in out


NOTEBOOK = '''
import json, sys
sys.path.append(sys.prefix + "/notebook")  # requirements/notebook.txt
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell = InteractiveShell.instance(colors="NoColor")

def cell(source):
    """What a cell prints, its value, and its traceback."""
    with capture_output() as output:
        result = shell.run_cell(source)
    error = result.error_in_exec
    return output.stdout, repr(result.result), str(error), repr(error and error.__cause__)

cells = [cell("""import kungfu_tf as kf
offset = 40
class Point:
    def __init__(self, x): self.x = x
def fn(rank):
    print("in the cell")
    return Point(offset + rank)
"""), cell("[type(p) is Point and p.x for p in kf.launch(fn, 2)]"), cell("""
def bad(rank):
    raise ValueError("no good")  # this line is shown
kf.launch(bad, 1)
""")]
print(json.dumps(cells))
'''


def test_a_notebook(start):
    out, _ = start(NOTEBOOK).end()
    _, (printed, result, _, _), (_, _, error, cause) = json.loads(out.splitlines()[-1])
    assert sorted(printed.splitlines()[:2]) == ["[0] in the cell", "[1] in the cell"]
    assert result == "[40, 41]"
    assert error.startswith("rank 0 on 127.0.0.1 (pid ")
    assert 'raise ValueError("no good")  # this line is shown' in error
    assert cause == "ValueError('no good')"
