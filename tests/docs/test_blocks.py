"""The blocks of code that pages mark to run."""

from __future__ import annotations

import os
import pkgutil
import sys
from pathlib import Path

import pytest

from docs.tools import blocks, images, pages

PAGE = """
```python title="train.py"
print("rank", 7)
```

<!-- run -->
```sh
python train.py
```

<!-- printed -->
```text
rank 8
```

```sh
exit 3
```

<!-- run: other -->
```sh
{more}
```
"""


def environ() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pages, "DOCS", tmp_path / "docs")
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    return file


def commands(page: Path, script: str = "") -> blocks.Commands:
    """Those of the page for the first environment, or others."""
    first = next(iter(blocks.commands_of(page)))
    printed = first.printed
    return blocks.Commands(page, ".", script or first.script, printed, first.files)


def test_commands_go_by_environment(page: Path) -> None:
    first, other = blocks.commands_of(page)
    assert (first.environment, other.environment) == ("tf-2.21", "other")
    assert (first.script, other.script) == ("python train.py\n", "{more}\n")
    assert first.printed == ((13, "rank 8"),)
    assert other.printed == ()
    assert first.files == {"train.py": 'print("rank", 7)\n'}


def test_commands_run_with_the_files_of_the_page(page: Path, monkeypatch) -> None:
    monkeypatch.setattr(blocks, "ROOT", page.parent)
    (page.parent / ".venv" / "bin").mkdir(parents=True)
    assert list(blocks.run_commands(commands(page), environ())) == [""]


def test_a_command_that_fails_is_named(page: Path, monkeypatch) -> None:
    monkeypatch.setattr(blocks, "ROOT", page.parent)
    (page.parent / ".venv" / "bin").mkdir(parents=True)
    (failed,) = blocks.run_commands(commands(page, "python train.py\nexit 3"), environ())
    assert failed == "page.md: exit code 3"


def test_a_line_that_is_not_printed_is_named(page: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(blocks, "ROOT", page.parent)
    (page.parent / ".venv" / "bin").mkdir(parents=True)
    (failed,) = blocks.run_commands(commands(page, "echo nothing"), environ())
    assert failed == "page.md: output"
    assert "page.md:13: not printed: rank 8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "output", "is_there"),
    [
        ("loss 0.25, step 3", "[0] loss 1.5e-05, step 12", True),
        ("loss 0.25, step 3", "[0] loss none, step 12", False),
        ("… of 2", "rank 1 of 2", True),
        ("a (b)", "a (b)", True),
        ("a (b)", "ab", False),
    ],
)
def test_any_number_stands_for_another(line: str, output: str, is_there: bool) -> None:
    assert (blocks.missing_lines([(1, line)], output) == []) == is_there


def test_commands_are_those_that_are_installed() -> None:
    commands = blocks.installed_commands()
    assert {"kungfu-run", "kungfu-config-server"} < {name for name, _, _ in commands}
    for _, module, function in commands:
        assert callable(pkgutil.resolve_name(f"{module}:{function}"))


def test_images_are_where_keras_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    images.write(tmp_path / ".keras" / "datasets" / "fashion-mnist")
    script = (
        "import keras\n"
        "(x, y), (x_test, y_test) = keras.datasets.fashion_mnist.load_data()\n"
        "assert x.shape == (2048, 28, 28) and x_test.shape == (512, 28, 28)\n"
        "assert sorted(set(y[::2].tolist())) == list(range(10)) and len(y_test) == 512\n"
    )
    code, output = blocks._run([sys.executable, "-c", script], tmp_path, dict(os.environ))
    assert code == 0, output
