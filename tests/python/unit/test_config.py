"""config: the environment, then the default; every variable is declared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kungfu_tf import config, errors
from kungfu_tf.native import environment

ROOT = Path(__file__).parents[3]


def test_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUNGFU_BUILD_TIMEOUT", raising=False)
    assert config.BUILD_TIMEOUT.get() == 600
    monkeypatch.setenv("KUNGFU_BUILD_TIMEOUT", "30")
    assert config.BUILD_TIMEOUT.get() == 30
    assert config.BUILD_TIMEOUT.get(environ={"KUNGFU_BUILD_TIMEOUT": "7"}) == 7
    assert config.BUILD_TIMEOUT.get(environ={"KUNGFU_BUILD_TIMEOUT": ""}) == 600


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "1e9"])
def test_an_error_names_variable_and_text(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        config.GRACE.get(environ={"KUNGFU_GRACE": text})
    assert "KUNGFU_GRACE" in str(caught.value)
    assert text in str(caught.value)


def test_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUNGFU_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert config.CACHE_DIR.get() == Path("/somewhere/kungfu_tf")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the specification
    assert config.CACHE_DIR.get() == Path.home() / ".cache" / "kungfu_tf"
    monkeypatch.setenv("KUNGFU_CACHE_DIR", "/mine")
    assert config.CACHE_DIR.get() == Path("/mine")


def test_every_variable_is_declared_once_with_its_meaning() -> None:
    declared = environment.settings()
    names = [setting.name for setting in declared]
    assert len(names) == len(set(names))
    assert all(setting.meaning and setting.type.words for setting in declared)
    sources = [
        file for folder in ("kungfu_tf", "examples") for file in (ROOT / folder).rglob("*.py")
    ]
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for file in [*pages, ROOT / "docker" / "compose.yml", *sorted(sources)]:
        # -DKUNGFU_... is a macro.
        used = set(re.findall(r"(?<!-D)\bKUNGFU_[A-Z_]*[A-Z]\b", file.read_text()))
        assert used <= set(names), file


def test_a_user_may_set_at_most_30() -> None:
    for_users = [setting for setting in environment.settings() if not setting.internal]
    assert 0 < len(for_users) <= 30


def test_the_cores_have_a_type_a_unit_and_a_default() -> None:
    settings = {setting.name: setting for setting in environment.settings()}
    warning = settings["KUNGFU_STALL_WARNING"]
    assert str(warning.type) == "a number above 0, at most 1e9, in seconds"
    assert (warning.default, warning.type.unit) == ("10", "seconds")
    assert warning.get(environ={"KUNGFU_STALL_WARNING": "2.5"}) == "2.5"
    with pytest.raises(errors.InvalidArgumentError) as caught:
        warning.get(environ={"KUNGFU_STALL_WARNING": "soon"})
    assert str(caught.value) == f"KUNGFU_STALL_WARNING='soon': expected {warning.type}"
    strategies = environment.strategies()
    assert len(strategies) > 1
    names = " or ".join([", ".join(strategies[:-1]), strategies[-1]])
    assert settings["KUNGFU_STRATEGY"].type.words == names


def test_a_default_is_what_could_be_set() -> None:
    for setting in environment.settings():
        value = setting.get(environ={})
        assert setting.get(environ={setting.name: setting.default}) == value
    defaults = {setting.name: setting.default for setting in environment.settings()}
    named = ("KUNGFU_TRANSPORT", "KUNGFU_SPIN", "KUNGFU_STALL_WARNING", "KUNGFU_GRACE")
    assert [defaults[name] for name in named] == ["auto", "auto", "10", "5"]
    assert defaults["KUNGFU_SELF"] == defaults["CXX"] == ""
    assert config.COMPAT.get(environ={}) == ()


def test_a_name_that_nobody_reads_is_told_with_the_nearest() -> None:
    environ = {"KUNGFU_TRANSPROT": "shm", "KUNGFU_XYZZY": "1", "TRANSPROT": "shm"}
    known = {setting.name: "" for setting in environment.settings()}
    assert environment.unknown(known | environ) == [
        "there is no variable KUNGFU_TRANSPROT; did you mean KUNGFU_TRANSPORT?",
        "there is no variable KUNGFU_XYZZY",
    ]


def test_what_is_read_by_another_name_is_not_ours() -> None:
    assert environment.unknown({"KUNGFU_CXX": "g++", "KUNGFU_CX": "g++"}) == [
        "there is no variable KUNGFU_CX",
        "there is no variable KUNGFU_CXX",
    ]


@pytest.mark.parametrize(("text", "value"), [("", False), ("0", False), ("1", True)])
def test_a_switch_is_0_or_1(text: str, value: bool) -> None:
    assert config.RELOADS.get(environ={"KUNGFU_RELOADS": text}) is value
    with pytest.raises(errors.InvalidArgumentError, match="expected 0 or 1"):
        config.RELOADS.get(environ={"KUNGFU_RELOADS": text + "yes"})


def test_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUNGFU_SELF", "KUNGFU_JOB_ID", "KUNGFU_MEMBERSHIP_VERSION"):
        monkeypatch.delenv(name, raising=False)
    assert config.identity() == ("", "", "")
    monkeypatch.setenv("KUNGFU_SELF", "127.0.0.1:7")
    assert config.identity().peer == "127.0.0.1:7"
