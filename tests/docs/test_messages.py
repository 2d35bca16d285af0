"""The page of messages has what the sources say."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from docs.tools import pages

ROOT = pages.DOCS.parent
ROWS = re.findall(
    r'^\| <a id="([\w-]+)"></a>(.*?) \|',
    (pages.DOCS / "reference" / "messages.md").read_text(),
    re.MULTILINE,
)
WORDS = 3  # in a row: fewer stand in any text


@pytest.fixture(scope="module")
def sources() -> str:
    files = [
        file
        for folder in ("kungfu_tf", "ops")
        for file in sorted((ROOT / folder).rglob("*"))
        if file.suffix in {".py", ".cc", ".h"}
    ]
    return "\n".join(file.read_text() for file in files)


@pytest.fixture(scope="module")
def texts(sources: str) -> str:
    """The sources, with the parts of each text put together."""
    return re.sub(r'"\s*(?:<<|\+)?\s*f?"', "", sources)


def parts_of(message: str) -> Iterator[str]:
    words = message.split()
    return (" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1))


@pytest.mark.parametrize(("anchor", "messages"), ROWS, ids=[anchor for anchor, _ in ROWS])
def test_a_message_is_one_of_the_sources(anchor: str, messages: str, texts: str) -> None:
    shown = re.findall(r"`([^`]+)`", messages)
    assert any(part in texts for message in shown for part in parts_of(message))


def test_each_anchor_stands_once() -> None:
    anchors = [anchor for anchor, _ in ROWS]
    assert len(anchors) == len(set(anchors)) > 30


def test_errors_lead_to_rows_of_the_page(sources: str) -> None:
    by_function = re.findall(r'\b[Ll]inked\(\s*"([\w-]+)"', sources)
    in_text = re.findall(r"messages#([\w-]+)", sources)
    links = {*by_function, *in_text}
    assert len(links) > 10
    assert links - {anchor for anchor, _ in ROWS} == set()
