"""How the programs of this package are started."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kungfu_tf import errors

# The interpreter takes over its starter's path before it imports anything, ours included. The
# starter may have extended it, and modules of one name must be the same in both.
_START = """\
import sys
arguments, sys.path[:] = sys.argv[1].split(), sys.argv[2:]
del sys.argv[1:]
from kungfu_tf.function_launch import {0}
sys.exit({0}.main(arguments))
"""


def command(program: str, arguments: Sequence[object]) -> list[str]:
    """The command line of a new interpreter that runs `main` of a program of this package.

    Raises:
        FailedPreconditionError: This process does not know its interpreter.
    """
    if not sys.executable:
        raise errors.FailedPreconditionError("launch: sys.executable does not name an interpreter")
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return [sys.executable, "-c", _START.format(program), " ".join(map(str, arguments)), *path]
