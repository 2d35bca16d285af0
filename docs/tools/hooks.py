"""What MkDocs does with a page before it makes HTML of it: see mkdocs.yml."""

from __future__ import annotations

import functools
from typing import Any

from docs.tools import generated, pages


@functools.cache
def _generated() -> dict[str, str]:
    return generated.everything()


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Puts in what is generated, and leaves out what is for our tools."""
    return pages.without_notes(pages.replace_generated(markdown, _generated()))
