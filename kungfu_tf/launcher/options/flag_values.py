"""Parses the values of flags. Each function parses one kind; its ValueError says what is wrong."""

import re


def text(value: str) -> str:
    if not value:
        raise ValueError("is empty")
    return value


def count(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", value) or int(value) == 0:
        raise ValueError("is not a number of peers, 1 or more")
    return int(value)


def times(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", value):
        raise ValueError("is not a number, 0 or more")
    return int(value)


def port(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", value) or not 1 <= int(value) <= 65535:
        raise ValueError("is not a port, 1 to 65535")
    return int(value)


def elastic_mode(value: str) -> str:
    if value not in ("delta", "reload"):
        raise ValueError("is neither delta nor reload")
    return value


def on_failure(value: str) -> str:
    if value not in ("stop", "survive", "survive-all"):
        raise ValueError("is none of stop, survive and survive-all")
    return value


def version(value: str) -> int:
    if not re.fullmatch(r"-1|[0-9]{1,9}", value):
        raise ValueError("is not a version, 0 or more, nor -1")
    return int(value)


def port_range(value: str) -> tuple[int, int]:
    first, dash, last = value.partition("-")
    if not dash:
        raise ValueError("is not a range of ports like 10000-11000")
    low, high = port(first), port(last)
    if low > high:
        raise ValueError("is a range of ports that ends before it begins")
    return low, high


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h)")


def duration(value: str) -> float:
    """Seconds: "90", "1.5s", "500ms", "1h30m"."""
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?", value):
        return float(value)
    parts = _DURATION.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError("is not a duration like 90, 1.5s, 500ms or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def durations(value: str) -> tuple[float, float]:
    """Two of them: "5s-10m"."""
    first, dash, last = value.partition("-")
    if not dash or duration(first) > duration(last):
        raise ValueError("is not a shorter and a longer duration, like 5s-10m")
    return duration(first), duration(last)


def variables(value: str) -> tuple[str, ...]:
    names = tuple(value.split(","))
    if wrong := [name for name in names if not (name.isidentifier() and name.isascii())]:
        raise ValueError(f"names '{wrong[0]}', which is not a variable")
    return names


def switch(value: str) -> bool:
    if value.lower() not in ("true", "false", "1", "0"):
        raise ValueError("is neither true nor false")
    return value.lower() in ("true", "1")
