"""Sizes and rates for people."""

from __future__ import annotations

__all__ = ["Gi", "Ki", "Mi", "show_rate", "show_size"]

Ki = 1024
Mi = 1024 * Ki
Gi = 1024 * Mi

_UNITS = ((Gi, "Gi"), (Mi, "Mi"), (Ki, "Ki"))


def show_size(s: float) -> str:
    """Bytes: "1.50Mi", or "512"."""
    for unit, name in _UNITS:
        if s > unit:
            return f"{s / unit:.2f}{name}"
    return str(int(s))


def show_rate(size: float, duration: float) -> str:
    """Bytes in seconds: "1.50MiB/s"."""
    rate = size / duration
    for unit, name in _UNITS:
        if rate >= unit:
            return f"{rate / unit:.2f}{name}B/s"
    return f"{rate:.2f}B/s"
