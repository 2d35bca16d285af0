"""Peers that give no sign of life, and a runner that has not looked for some time."""

from __future__ import annotations

import pytest

from kungfu_tf.launcher.channels import heartbeat
from kungfu_tf.launcher.channels.control import Contact
from kungfu_tf.launcher.channels.heartbeat import Heartbeat


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(heartbeat, "time", clock)
    return clock


def heartbeat_of(contact: Contact, killed: list[int], said: list[str]) -> Heartbeat:
    return Heartbeat({1: contact}, say=said.append, give_up_after=5.0, give_up=killed.append)


def test_a_silent_peer_is_killed_once(clock: Clock) -> None:
    contact = Contact(connected=True, heard=clock.now)
    killed: list[int] = []
    said: list[str] = []
    looks = heartbeat_of(contact, killed, said)
    for _second in range(8):
        clock.now += 1
        looks.check()
    assert killed == [1]
    assert said == ["rank 1 is killed: no sign of life for 5 s"]


def test_a_runner_that_was_stopped_reads_before_it_judges(clock: Clock) -> None:
    contact = Contact(connected=True, heard=clock.now)
    killed: list[int] = []
    said: list[str] = []
    looks = heartbeat_of(contact, killed, said)
    clock.now += 60
    looks.check()
    contact.heard = clock.now  # it reads what the peer has said
    clock.now += 1
    looks.check()
    assert (killed, said) == ([], [])
