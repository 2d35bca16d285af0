"""config: argument, then environment, then default."""

from __future__ import annotations

from pathlib import Path

import pytest

from kungfu_tf import config, errors


def test_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUNGFU_BUILD_TIMEOUT", raising=False)
    assert config.BUILD_TIMEOUT.get() == 600
    monkeypatch.setenv("KUNGFU_BUILD_TIMEOUT", "30")
    assert config.BUILD_TIMEOUT.get() == 30
    assert config.BUILD_TIMEOUT.get(5.0) == 5
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


def test_every_setting_has_a_meaning() -> None:
    for setting in config.SETTINGS:
        assert setting.name
        assert setting.meaning
