"""English text for the examples: Jane Austen's six novels, out of Debian's r-cran-janeaustenr.

    python examples/austen.py     fetches them and prints where they are

The package is used where it is installed; else it is fetched, without root, once.
"""

from __future__ import annotations

import fcntl
import re
import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import debian

FETCHED = Path(__file__).resolve().parent.parent / ".data"
NOVELS = Path("usr/lib/R/site-library/janeaustenr/data/Rdata.rdb")
# A string of R as it is stored: flags (the type is 9), a length, the bytes.
STRING = re.compile(rb"\x00[\x00-\x0f]\x00\x09(....)", re.DOTALL)


def load() -> str:
    """The novels, one after the other; each line ends with a newline."""
    return "".join(f"{line}\n" for novel in _novels(fetch().read_bytes()) for line in novel)


def fetch() -> Path:
    """The package's file of data.

    Raises:
        FileNotFoundError: It is not installed and cannot be fetched.
    """
    installed = Path("/") / NOVELS
    if installed.is_file():
        return installed
    FETCHED.mkdir(exist_ok=True)
    target = FETCHED / "austen.rdb"
    with open(FETCHED / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_file():
            _download().rename(target)
    return target


def _download() -> Path:
    with tempfile.TemporaryDirectory(dir=FETCHED) as scratch:
        try:
            debian.unpack("r-cran-janeaustenr", Path(scratch))
        except OSError as error:
            raise FileNotFoundError(
                "Jane Austen's novels cannot be fetched; give a text of your own, --text FILE: "
                f"{error}"
            ) from error
        return (Path(scratch) / NOVELS).rename(FETCHED / "austen.part")


def _novels(database: bytes) -> Iterator[list[str]]:
    """The lines of each object of an R database: its length, and a zlib stream, one by one."""
    while database:
        stream = zlib.decompressobj()
        data = stream.decompress(database[4:])
        database = stream.unused_data
        yield [_text(data, found) for found in STRING.finditer(data)]


def _text(data: bytes, found: re.Match[bytes]) -> str:
    (length,) = struct.unpack(">I", found[1])
    return data[found.end() : found.end() + length].decode("utf-8", errors="replace")


if __name__ == "__main__":
    print(fetch(), f"{len(load())} characters", file=sys.stderr)
