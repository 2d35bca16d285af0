"""The lint that finds long sentences."""

from __future__ import annotations

import pytest

from docs.tools import english

REST = " ".join(["word"] * (english.MOST_WORDS - 1))
SHORT = f"Word {REST}"
LONG = f"{SHORT} word"


def found(text: str) -> list[tuple[int, int]]:
    return [(line, words) for line, words, _ in english.too_long(text)]


@pytest.mark.parametrize(
    "text",
    [
        f"{SHORT}.",
        f"{SHORT}. {SHORT}!",
        f"{SHORT}. `code` {REST}",
        f"{SHORT}\n\n{SHORT}",
        f"- {SHORT}\n- {SHORT}",
        f"| {SHORT} | {SHORT} |",
        f"# {SHORT}\n{SHORT}",
        f"```sh\n{LONG}\n```",
        f"<!-- given\n{LONG}\n-->",
        f"`{LONG}` {REST}",
    ],
)
def test_what_is_short_enough(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{LONG}.", 1),
        (f"# Title\n\n{SHORT}. {LONG}.", 3),
        (f"Short.\n\n- one\n- {SHORT}\n  word", 4),
        (f"| a | b |\n|---|---|\n| a | {LONG} |", 3),
        (f"[{LONG}](elsewhere)", 1),
        (f"```sh\ncode\n```\n{LONG}", 4),
        (f"<!-- given\ncode\n-->\n\n{LONG}", 5),
        (f"e.g. Word {REST}", 1),
    ],
)
def test_what_is_too_long(text: str, line: int) -> None:
    assert found(text) == [(line, english.MOST_WORDS + 1)]


def test_the_pages_have_no_long_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code = english.main()
    assert (code, capsys.readouterr().out) == (0, "")
