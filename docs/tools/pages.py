"""What a page of the documentation consists of: prose, blocks of code, and notes to our tools.

A note is an HTML comment that begins with its kind. The site does not show it:

    <!-- run -->          the block of code below runs, and must end well
    <!-- run: alone -->   ... in one process; `run: tf-2.15`: with that environment
    <!-- printed -->      the block below is what the commands before it print
    <!-- given ... -->    Python that runs before the page's blocks, which show no more than is new
    <!-- check ... -->    Python that runs where it stands, and checks what the blocks have done
    <!-- generated: x --> replaced by what docs/tools/generated.py makes
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[1]
DONE = "blocks have run"  # how a line ends that tells of a page

_FENCE = re.compile(r"^(?P<indent> *)(?P<marks>```+)(?P<info>.*)$")
_NOTE = re.compile(
    r"<!-- *(?P<kind>run|printed|given|check|generated)\b:?(?P<text>.*?)-->", re.DOTALL
)


@dataclass(frozen=True)
class Note:
    """A note to a tool.

    Attributes:
        kind: Its first word.
        text: What follows.
        line: Of the page, from 1, where its text begins.
    """

    kind: str
    text: str
    line: int


@dataclass(frozen=True)
class Block:
    """A fenced block of code.

    Attributes:
        language: As the fence has it.
        title: The name of the file that it shows; empty: none.
        text: The code.
        line: Of the page, from 1, where the code begins.
        note: The note on the line above it, if there is one.
    """

    language: str
    title: str
    text: str
    line: int
    note: Note | None = None


def parts_of(text: str) -> Iterator[Note | Block | str]:
    """The parts of a page, in order; prose by lines."""
    lines = text.splitlines()
    at = 0
    note: Note | None = None
    while at < len(lines):
        if fence := _FENCE.match(lines[at]):
            end = _end_of_block(lines, at, fence)
            yield _block(lines, at, end, fence, note)
            at, note = end + 1, None
        elif lines[at].lstrip().startswith("<!--"):
            end = next(n for n in range(at, len(lines)) if "-->" in lines[n])
            note = _note("\n".join(lines[at : end + 1]), at + 1)
            if note:
                yield note
            at = end + 1
        else:
            note = None
            yield lines[at]
            at += 1


def without_notes(text: str) -> str:
    """The page as the site shows it."""
    return _NOTE.sub("", text)


def replace_generated(text: str, make: dict[str, str]) -> str:
    """The page with what is generated in the place of the notes that ask for it."""
    return _NOTE.sub(
        lambda found: make[found["text"].strip()] if found["kind"] == "generated" else found[0],
        text,
    )


def all_pages() -> list[Path]:
    """README.md, and those of docs/ in the order of their names."""
    return [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """Its path within the repository."""
    return str(page.relative_to(DOCS.parent))


def is_fragment(part: Note | Block | str, kind: str) -> bool:
    """Whether it is Python that runs with what a page is given, under that kind of `run`."""
    return (
        isinstance(part, Block)
        and part.language == "python"
        and part.note is not None
        and (part.note.kind, part.note.text.strip()) == ("run", kind)
    )


def _end_of_block(lines: list[str], at: int, fence: re.Match[str]) -> int:
    closing = fence["marks"]
    return next(n for n in range(at + 1, len(lines)) if lines[n].strip() == closing)


def _block(lines: list[str], at: int, end: int, fence: re.Match[str], note: Note | None) -> Block:
    indent = len(fence["indent"])
    code = "".join(f"{line[indent:]}\n" for line in lines[at + 1 : end])
    language, _, rest = fence["info"].strip().partition(" ")
    title = re.search(r'title="([^"]*)"', rest)
    return Block(language, title[1] if title else "", code, at + 2, note)


def _note(text: str, line: int) -> Note | None:
    found = _NOTE.search(text)
    if not found:
        return None
    first = text[: found.start("text")].count("\n")
    return Note(found["kind"], found["text"], line + first)
