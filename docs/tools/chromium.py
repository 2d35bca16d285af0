"""The browser that shows pages to our tools, without a window."""

from __future__ import annotations

from pathlib import Path

NAME = "chromium"  # of Debian's package, too
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--disable-3d-apis"),
)


def command(profile: Path) -> list[str]:
    """How it is started, with a folder for its profile. Options and an address may follow."""
    return [NAME, *_OPTIONS, f"--user-data-dir={profile}"]
