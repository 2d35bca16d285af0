"""The error for an engine that is not installed."""

from __future__ import annotations

import importlib
from typing import Any


def needed(package: str, caller: str) -> Any:
    """Imports a package.

    Args:
        package: Its name, with pip, too.
        caller: The call that needs it.

    Raises:
        ImportError: If it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ImportError(f"{caller} needs {package}: pip install {package}") from None
