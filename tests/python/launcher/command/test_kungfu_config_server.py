"""The command kungfu-config-server."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from kungfu_tf.launcher.command import kungfu_config_server, resizing
from kungfu_tf.launcher.document.http_store import HttpStore
from kungfu_tf.launcher.options import command_line
from tests.python.launcher.served import DEADLINE, ONE, TOKEN, TWO


def test_the_command_keeps_its_document(tmp_path: Path) -> None:
    init = tmp_path / "init.json"
    init.write_text(json.dumps(TWO.to_json()))
    words = ["-port", "0", "-file", str(tmp_path / "kept.json"), "-init", str(init)]
    command = [sys.executable, "-m", "kungfu_tf.launcher.command.kungfu_config_server", *words]
    environ = {**os.environ, "KUNGFU_CONFIG_TOKEN": TOKEN}
    with contextlib.ExitStack() as ending:
        server = ending.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
        )
        ending.callback(server.kill)
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        with pytest.raises(ConnectionRefusedError):  # it listens on loopback only
            socket.create_connection(("127.0.0.2", int(url.split(":")[-1])), timeout=DEADLINE)
        assert HttpStore(url, TOKEN).get().version == 0
        words = ["-resize", "3", "-config-server", url]
        options = command_line.parse(words)
        said = resizing.run(options, {"KUNGFU_CONFIG_TOKEN": TOKEN})
        assert said == "the document has 3 workers now; it had 2"
        HttpStore(url, TOKEN).reset(ONE)
        request = urllib.request.Request(
            f"{url}/stop", method="POST", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        urllib.request.urlopen(request, timeout=DEADLINE).close()
        assert server.wait(DEADLINE) == 0
    assert json.loads((tmp_path / "kept.json").read_text())["version"] == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-port", "x"], "is not a port"),
        (["-nonsense"], "there is no '-nonsense'"),
        (["-port"], "-port needs a value"),
    ],
)
def test_wrong_command_lines(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kungfu_config_server.main(words) == 2
    assert why in capsys.readouterr().err


def test_a_file_that_cannot_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUNGFU_CONFIG_TOKEN", TOKEN)
    file = tmp_path / "none" / "kept.json"
    assert kungfu_config_server.main(["-port", "0", "-file", str(file)]) == 2
    said = f"-file: '{file}' cannot be kept: nothing can be written to '{file.parent}'"
    assert said in capsys.readouterr().err


def test_a_server_wants_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUNGFU_CONFIG_TOKEN", raising=False)
    assert kungfu_config_server.main([]) == 2
    assert "the config server needs a token" in capsys.readouterr().err
    monkeypatch.setenv("KUNGFU_CONFIG_TOKEN", "short")
    assert kungfu_config_server.main([]) == 2
