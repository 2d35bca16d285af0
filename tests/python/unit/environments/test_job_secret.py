"""The secret of a job: given, or from the user's file."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest

from kungfu_tf import errors
from kungfu_tf.environments import job_secret
from kungfu_tf.environments.placement import Placement

PLACE = Placement("a test", ("RANK",), 0, 2, "job", "a")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_given_secret_counts(home: Path) -> None:
    file = home / "given"
    file.write_text("another one of the test\nmore\n")
    file.chmod(0o600)
    environ = {"KUNGFU_SECRET_FILE": str(file)}
    assert job_secret.of(PLACE, environ) == "another one of the test"
    environ["KUNGFU_SECRET"] = "a secret of the test"
    assert job_secret.of(PLACE, environ) == "a secret of the test"
    assert not (home / ".kungfu").exists()


def test_the_file_is_written_once_and_each_job_has_its_own_secret(home: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        secrets = set(pool.map(lambda _: job_secret.of(PLACE, {}), range(32)))
    assert len(secrets) == 1
    file = home / ".kungfu" / "secret"
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_text()) == 65
    assert file.read_text().strip() not in secrets
    assert job_secret.of(PLACE._replace(job="other"), {}) not in secrets
    assert job_secret.of(PLACE._replace(restarts=1), {}) not in secrets


@pytest.mark.parametrize("name", ["secret", "given"])
def test_a_file_that_others_may_read_is_refused(name: str, home: Path) -> None:
    file = home / ".kungfu" / name
    file.parent.mkdir()
    file.write_text("a secret that all may read\n")
    file.chmod(0o640)
    environ = {"KUNGFU_SECRET_FILE": str(file)} if name == "given" else {}
    with pytest.raises(errors.PermissionDeniedError, match="open to other users"):
        job_secret.of(PLACE, environ)


def test_an_empty_file_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_secret, "_DEADLINE", 0.0)
    (home / ".kungfu").mkdir()
    (home / ".kungfu" / "secret").touch(mode=0o600)
    with pytest.raises(errors.FailedPreconditionError, match="has no line: remove it"):
        job_secret.of(PLACE, {})


def test_without_a_common_home_a_secret_must_be_given(home: Path) -> None:
    apart = PLACE._replace(shares_home=False)
    with pytest.raises(errors.FailedPreconditionError, match=r"a test .RANK=.*set KUNGFU_SECRET,"):
        job_secret.of(apart, {"RANK": "0"})
    assert job_secret.of(apart._replace(local_size=2), {})
