"""Starts the programs of this package."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kungfu_tf import errors

# The interpreter takes over the path of its starter before it imports anything, even kungfu_tf: the
# starter may have extended the path, and a module must be the same in both.
_START = """\
import sys
arguments, sys.path[:] = sys.argv[1].split(), sys.argv[2:]
del sys.argv[1:]
import {0} as program
sys.exit(program.main(arguments))
"""


def command(program: str, arguments: Sequence[object]) -> list[str]:
    """The command line of a new interpreter that runs a program of ours.

    Args:
        program: The module, whose `main` gets the arguments.
        arguments: The arguments, without spaces.

    Raises:
        FailedPreconditionError: If this process does not know its interpreter.
    """
    if not sys.executable:
        raise errors.FailedPreconditionError("sys.executable does not name an interpreter")
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return [sys.executable, "-c", _START.format(program), " ".join(map(str, arguments)), *path]
