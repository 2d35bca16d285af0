"""Makes lines for a person from the bytes of a pipe."""

import re
from typing import NamedTuple

LONGEST = 64 << 10

_END = re.compile(rb"\r*\n|\r+(?=[^\r\n])")


class Piece(NamedTuple):
    """A whole line; or, if it is not final, an update that the next piece overwrites."""

    text: str
    final: bool


class LineAssembler:
    """Cuts one stream into pieces. It cuts lines longer than LONGEST, so memory is bounded.

    Text before a carriage return that more text follows is an update. Backspaces, which old
    progress bars write before it, are dropped. Bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> list[Piece]:
        """The pieces that `data` completes."""
        data = self._pending + data
        pieces: list[Piece] = []
        start = 0
        for match in _END.finditer(data):
            text = data[start : match.start()]
            final = match.group().endswith(b"\n")
            pieces += _cut(text, final)
            start = match.end()
        rest = data[start:]
        while len(rest) > LONGEST:
            end = _boundary(rest)
            pieces.append(_piece(rest[:end], final=True))
            rest = rest[end:]
        self._pending = rest
        return pieces

    @property
    def pending(self) -> str:
        """Returns the incomplete last line."""
        return _piece(self._pending.rstrip(b"\r"), final=False).text

    def finish(self) -> list[Piece]:
        """The last line, if the stream ended inside it."""
        rest, self._pending = self._pending.rstrip(b"\r"), b""
        return _cut(rest, True) if rest else []


def _cut(text: bytes, final: bool) -> list[Piece]:
    pieces = []
    while len(text) > LONGEST:
        end = _boundary(text)
        pieces.append(_piece(text[:end], final))
        text = text[end:]
    return [*pieces, _piece(text, final)]


def _piece(text: bytes, final: bool) -> Piece:
    return Piece(text.replace(b"\b", b"").decode("utf-8", "replace"), final)


def _boundary(text: bytes) -> int:
    """The last place up to LONGEST that is not inside a UTF-8 character."""
    end = LONGEST
    while end > LONGEST - 4 and text[end] & 0xC0 == 0x80:
        end -= 1
    return end
