"""Finds sentences that are too long: `python -m docs.tools.english`.

A sentence ends at a full stop, a question mark or an exclamation mark, and where its paragraph,
list item or table cell ends. Code counts as one word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from docs.tools import pages

MOST_WORDS = 25

_END = re.compile(r"(?<=[.?!])[\"”)*_]*\s+(?=[\"“(*_`\[]*[A-Z0-9`])")
_ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|vs|al|cf|etc)\.")
_BEGINS_A_BLOCK = re.compile(r"^\s*([-*+] |\d+\. |#+ |>|\||!!! |\?\?\? |: )")


def main() -> int:
    """Prints what is too long. Returns the exit code."""
    problems = [
        f"{pages.name_of(file)}:{line}: {words} words: {sentence}"
        for file in pages.all_pages()
        for line, words, sentence in too_long(file.read_text())
    ]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


def too_long(text: str) -> Iterator[tuple[int, int, str]]:
    """The line of each block of prose with such a sentence, its number of words, and itself."""
    for line, block in _blocks(text):
        for sentence in _END.split(_ABBREVIATIONS.sub(r"\1", block)):
            words = len(_words(sentence))
            if words > MOST_WORDS:
                yield line, words, sentence.strip()


def _words(sentence: str) -> list[str]:
    return [word for word in sentence.split() if re.search(r"\w", word)]


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items, table cells, each with its first line."""
    block: list[str] = []
    began = number = 0
    for part in [*pages.parts_of(text), ""]:
        number = _line_after(part, number)
        is_prose = isinstance(part, str) and part.strip()
        if block and (not is_prose or _BEGINS_A_BLOCK.match(str(part))):
            yield began, _plain(" ".join(block))
            block = []
        if not is_prose:
            continue
        assert isinstance(part, str)
        if part.lstrip().startswith("|"):
            yield from ((number, cell) for cell in _plain(part).split("|"))
        elif part.startswith("#"):
            yield number, _plain(part)
        else:
            began = began if block else number
            block.append(_BEGINS_A_BLOCK.sub("", part))


def _line_after(part: pages.Note | pages.Block | str, number: int) -> int:
    if isinstance(part, str):
        return number + 1
    return part.line + part.text.count("\n")


def _plain(markdown: str) -> str:
    """Without code, and of links the text only."""
    text = re.sub(r"``.+?``|`[^`]*`", "Code", markdown)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"<[^>]*>|\{[^}]*\}", "", text)


if __name__ == "__main__":
    sys.exit(main())
