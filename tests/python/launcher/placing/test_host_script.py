"""The program that says which hosts there are, as a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kungfu_tf.launcher.options.launch_error import LaunchError
from kungfu_tf.launcher.placing import host_script
from kungfu_tf.launcher.placing.host_script import HostScript

DEADLINE = 60.0


def until(script: HostScript, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        script.advance()
        time.sleep(0.01)


def test_the_newest_hosts_are_offered(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1:2\n")
    offered: list[list[tuple[str, int]]] = []
    said: list[str] = []
    script = HostScript(
        f"cat '{hosts}'",
        lambda found: offered.append([(str(host.address), host.slots) for host in found]),
        said.append,
    )
    until(script, lambda: offered == [[("127.0.0.1", 2)]])
    hosts.write_text("127.0.0.1:2\n127.0.0.2\n")
    until(script, lambda: offered[-1] == [("127.0.0.1", 2), ("127.0.0.2", 1)])
    hosts.unlink()
    until(script, lambda: said)
    assert said[0].endswith(f"'cat '{hosts}'' ends with an error")
    hosts.write_text("127.0.0.1:many\n")
    until(script, lambda: said[1:])
    assert "item 1 '127.0.0.1:many' has 'many' as its number of slots" in said[1]
    script.close()


def test_one_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_script, "_LONGEST", 0.1)
    said: list[str] = []
    script = HostScript("exec sleep 100", lambda _found: None, said.append)
    until(script, lambda: said)
    assert "it takes longer than 0.1 s" in said[0]


def test_it_is_asked_before_the_job_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [host.slots for host in host_script.ask("echo 127.0.0.1:3")] == [3]
    with pytest.raises(LaunchError, match="'exit 3' ends with an error"):
        host_script.ask("exit 3")
    with pytest.raises(LaunchError, match="-host-discovery-script: item 1 '' names no host"):
        host_script.ask("true")
    monkeypatch.setattr(host_script, "_LONGEST", 0.1)
    with pytest.raises(LaunchError, match=r"takes longer than 0\.1 s"):
        host_script.ask("sleep 100")
