"""An interpreter without a program reads one from its standard input, and peers have none."""

import os
import re
from collections.abc import Sequence

_PYTHON = re.compile(r"i?python[0-9.]*")
_READS_ON = re.compile(r"-|-[bBdEiIOPqRsSuvx]+")  # flags after which Python still lacks a program


def lacks_program(command: Sequence[str]) -> bool:
    """Whether a command is a Python that would read its program from its standard input."""
    name, *words = command
    return bool(_PYTHON.fullmatch(os.path.basename(name))) and all(
        _READS_ON.fullmatch(word) for word in words
    )
