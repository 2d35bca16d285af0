"""Facts of KungFu, Horovod and BlueFog: tests/upstream/names.py has made them of their sources."""

from __future__ import annotations

import json
from pathlib import Path

PACKAGES = ("kungfu", "horovod", "bluefog")
TABLES = [
    json.loads(Path(__file__).with_name(f"{name}_names.json").read_text()) for name in PACKAGES
]
NAMES = {module: names for table in TABLES for module, names in table["names"].items()}
FLAGS, OF_HOROVODRUN = (table["flags"] for table in TABLES if "flags" in table)
