"""Quotas of cgroups, as containers have them."""

from pathlib import Path

import pytest

from kungfu_tf.launcher.placing import quota

V1 = "3:memory:/a/b\n2:cpuacct,cpu:/a/b\n"


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 3),
        ("0::/\n", {"cpu.max": "1000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {}, None),
        ("0::/\n", {"cpu.max": "of another kind\n"}, None),
        # Of those around it, the one that leaves least.
        ("0::/a/b\n", {"a/b/cpu.max": "max 1000", "a/cpu.max": "4000 1000"}, 4),
        ("0::/a/b\n", {"a/b/cpu.max": "3000 1000", "a/cpu.max": "4000 1000"}, 3),
        ("0::/a/b\n", {"a/b/cpu.max": "9000 1000", "a/cpu.max": "4000 1000"}, 4),
        # A container sees its own at the top, and is told the host's path.
        ("0::/a/b\n", {"cpu.max": "5000 1000"}, 5),
        # Another's is not its own.
        ("0::/a\n", {"b/cpu.max": "5000 1000"}, None),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "150000\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 2),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "-1\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, None),
        (V1, {"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        (V1, {"memory/a/b/cpu.max": "1000 1000"}, None),
        ("", {"cpu.max": "1000 1000"}, None),
    ],
)
def test_cores_of_a_quota(
    tmp_path: Path, own: str, files: dict[str, str], cores: int | None
) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        file = tmp_path / "mounted" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert quota.cores(tmp_path / "own", tmp_path / "mounted") == cores


def test_without_cgroups(tmp_path: Path) -> None:
    assert quota.cores(tmp_path / "own", tmp_path) is None
